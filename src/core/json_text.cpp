#include "core/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "core/printable.h"

namespace fathom {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxErrorBytes = 200;

}  // namespace

std::string json_error_text(const std::string& what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
  const size_t tag_end = what.find("] ");
  return printable(tag_end == std::string::npos ? what : what.substr(tag_end + 2), kMaxErrorBytes);
}

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  using Event = nlohmann::json::parse_event_t;
  if (text.find('\0') != std::string_view::npos) {  // would end the text for nlohmann's parser
    throw Error(ErrorCode::kBadModel, fmt::format("{}: not valid JSON: a NUL character", name));
  }
  std::vector<std::unordered_set<std::string>> keys;  // of the objects being read, outermost first
  const auto check = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > kMaxDepth) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: JSON nested deeper than {}", name, kMaxDepth));
    }
    if (event == Event::object_start) {
      keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("{}: key {} occurs twice", name, printable(parsed.get_ref<const std::string&>())));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: not valid JSON: {}", name, json_error_text(error.what())));
  }
}

}  // namespace fathom
