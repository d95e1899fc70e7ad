#include "cli/token_ids.h"

#include <fmt/format.h>

#include <charconv>

#include "core/error.h"

namespace fathom::cli {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

[[noreturn]] void reject(const std::string& source, int line, std::string_view word, const std::string& why) {
  constexpr size_t kShown = 40;
  const std::string shown = fmt::format("{}{}", word.substr(0, kShown), word.size() > kShown ? "..." : "");
  throw Error(ErrorCode::kBadRequest, fmt::format("{}: line {}: '{}' {}", source, line, shown, why));
}

TokenId parse_id(std::string_view word, int vocab, const std::string& source, int line) {
  TokenId id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (end != word.data() + word.size() || error == std::errc::invalid_argument) {
    reject(source, line, word, "is not a token id (expected decimal numbers between whitespace)");
  }
  if (error != std::errc{} || id < 0 || id >= vocab) {
    reject(source, line, word, fmt::format("is outside the vocabulary, expected 0 to {}", vocab - 1));
  }
  return id;
}

}  // namespace

std::vector<TokenId> parse_token_ids(std::string_view text, int vocab, const std::string& source) {
  std::vector<TokenId> ids;
  int line = 1;
  size_t at = 0;
  while (at < text.size()) {
    if (kSpace.find(text[at]) != std::string_view::npos) {
      line += text[at] == '\n' ? 1 : 0;
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    ids.push_back(parse_id(text.substr(at, end - at), vocab, source, line));
    at = end;
  }
  return ids;
}

std::string format_token_ids(const std::vector<TokenId>& ids) { return fmt::format("{}", fmt::join(ids, " ")); }

}  // namespace fathom::cli
