#include "core/ordered_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json_text.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxDepth = 128;

// Builds the value that nlohmann's parser describes. Its own builder would search an object for every new key.
class Builder {
 public:
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string& digits) {
    if (digits.find_first_of(".eE") != std::string::npos) {
      return add(value);
    }
    return add(Json::binary(Json::binary_t::container_type(digits.begin(), digits.end())));
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON text

  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& key) {
    Level& level = levels_.back();
    auto& members = level.value->get_ref<Json::object_t&>();
    const auto [place, is_new] = level.index.try_emplace(key, members.size());
    if (is_new) {
      members.emplace_back(std::move(key), nullptr);
    }
    level.member = place->second;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& error) {
    return fail(fmt::format("not valid JSON: {}", json_error_text(error.what())));
  }
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  [[nodiscard]] Json take() { return *std::move(root_); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Level {
    Json* value;
    std::unordered_map<std::string, size_t> index = {};  // of an object's members
    size_t member = 0;                                   // the one being read
  };

  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  Json* place(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &*root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    Json& member =
        (level.value->get_ref<Json::object_t&>().begin() + static_cast<std::ptrdiff_t>(level.member))->second;
    member = std::move(value);
    return &member;
  }
  bool open(Json value) {
    if (levels_.size() == kMaxDepth) {
      return fail(fmt::format("JSON nested deeper than {}", kMaxDepth));
    }
    levels_.push_back({place(std::move(value))});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::optional<Json> root_;
  std::vector<Level> levels_;  // containers being read, outermost first; none moves while a child is open
  std::string problem_;
};

// The code unit of "\uXXXX" at `at`, or -1.
int code_unit(std::string_view text, size_t at) {
  if (text.size() < at + 6 || text[at] != '\\' || text[at + 1] != 'u') {
    return -1;
  }
  int value = 0;
  const char* end = text.data() + at + 6;
  return std::from_chars(text.data() + at + 2, end, value, 16).ptr == end ? value : -1;
}

bool is_high_surrogate(int unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low_surrogate(int unit) { return unit >= 0xdc00 && unit < 0xe000; }

// Escapes of half a surrogate pair, which the parser refuses, become those of U+FFFD.
std::string replace_lone_surrogates(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const int unit = code_unit(text, i);
    size_t size = 1;
    if (is_high_surrogate(unit) && is_low_surrogate(code_unit(text, i + 6))) {
      size = 12;
    } else if (is_high_surrogate(unit) || is_low_surrogate(unit)) {
      out += "\\ufffd";
      i += 6;
      continue;
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      size = 2;
    }
    out += text.substr(i, size);
    i += size;
  }
  return out;
}

// Whether the text is JSON; `builder` holds the value or the problem.
bool parse(std::string_view text, Builder& builder) {
  if (text.find('\0') != std::string_view::npos) {  // would end the text for nlohmann's parser
    return builder.fail("not valid JSON: a NUL character");
  }
  if (text.find("\\u") != std::string_view::npos) {
    return Json::sax_parse(replace_lone_surrogates(text), &builder);
  }
  return Json::sax_parse(text, &builder);
}

// Python's repr: the shortest digits that give the same double again.
void append_float(std::string& out, double value) {
  char buffer[32];
  const auto written = std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(written.ptr - buffer));
  const int exponent = std::atoi(std::string(text.substr(text.find('e') + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    out += text;  // both write at least two digits of the exponent
    return;
  }
  const auto plain = std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::fixed);
  const std::string_view fixed(buffer, static_cast<size_t>(plain.ptr - buffer));
  out += fixed;
  if (fixed.find('.') == std::string_view::npos) {
    out += ".0";
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object: {
      const char* separator = "{";
      for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) {
        out += std::exchange(separator, ", ");
        append_string(out, key);
        out += ": ";
        append(out, member);
      }
      out += value.empty() ? "{}" : "}";
      return;
    }
    case Json::value_t::array: {
      const char* separator = "[";
      for (const Json& element : value) {
        out += std::exchange(separator, ", ");
        append(out, element);
      }
      out += value.empty() ? "[]" : "]";
      return;
    }
    case Json::value_t::string:
      append_string(out, value.get_ref<const std::string&>());
      return;
    case Json::value_t::number_float:
      append_float(out, value.get<double>());
      return;
    case Json::value_t::binary:
      out.append(value.get_binary().begin(), value.get_binary().end());
      return;
    default:
      out += value.dump();
  }
}

}  // namespace

std::optional<Json> parse_ordered_json(std::string_view text) {
  Builder builder;
  if (!parse(text, builder)) {
    return std::nullopt;
  }
  return builder.take();
}

Json parse_ordered_json(std::string_view text, const std::string& name) {
  Builder builder;
  if (!parse(text, builder)) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: {}", name, builder.problem()));
  }
  return builder.take();
}

std::string python_json(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

void append_json_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

}  // namespace fathom
