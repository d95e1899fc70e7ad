#include "chat/dsml_tag.h"

#include <algorithm>
#include <utility>

#include "core/prompt_text.h"

namespace fathom {
namespace {

// What is longer is no tag: a stream must not be held back for ever by a quote that does not end.
constexpr size_t kMaxTagBytes = 1024;

constexpr std::string_view kWideBar = "\uFF5C";
constexpr std::string_view kWhitespace = " \t\r\n";

bool is_whitespace(char c) { return kWhitespace.find(c) != std::string_view::npos; }

// Reads on while everything fits; the first thing that does not decides the match and stops it.
class TagReader {
 public:
  TagReader(std::string_view text, TagStyle style) : text_(text), style_(style) {}

  [[nodiscard]] TagMatch read() {
    take("<");
    tag_.closes = try_take("/");
    read_mark();
    if (style_ != TagStyle::kExact) {
      skip_whitespace();
    }
    read_word();
    if (tag_.closes) {
      read_end_of_closing_tag();
    } else if (tag_.kind == DsmlTag::Kind::kCalls) {
      skip_whitespace();
      take(">");
    } else {
      read_attributes();
    }
    if (match_ == Match::kMaybe ? text_.size() > kMaxTagBytes : pos_ > kMaxTagBytes) {
      match_ = Match::kNo;
    }
    return {match_, tag_, pos_};
  }

 private:
  [[nodiscard]] bool fits() const { return match_ == Match::kYes; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(pos_); }

  bool try_take(std::string_view literal) {
    if (!fits()) {
      return false;
    }
    const Match found = match_literal(rest(), literal);
    if (found == Match::kYes) {
      pos_ += literal.size();
    } else if (found == Match::kMaybe) {
      match_ = Match::kMaybe;
    }
    return found == Match::kYes;
  }

  void take(std::string_view literal) { require(try_take(literal)); }

  void require(bool condition) {
    if (fits() && !condition) {
      match_ = Match::kNo;
    }
  }

  // The next character, 0 when there is none.
  char peek() {
    if (fits() && pos_ == text_.size()) {
      match_ = Match::kMaybe;
    }
    return fits() ? text_[pos_] : '\0';
  }

  bool skip_whitespace() {
    const size_t begin = pos_;
    while (is_whitespace(peek())) {
      ++pos_;
    }
    return pos_ > begin;
  }

  bool try_take_bar() { return try_take(kWideBar) || try_take("|"); }

  void read_mark() {
    if (style_ == TagStyle::kExact) {
      take(literal::kDsml);
      return;
    }
    if (const char c = peek(); style_ == TagStyle::kBare && c >= 'a' && c <= 'z') {
      return;
    }
    static_cast<void>(try_take_bar() && try_take_bar());
    take("DSML");
    require(try_take_bar());
    static_cast<void>(try_take_bar());
  }

  void read_word() {
    using Kind = DsmlTag::Kind;
    static constexpr std::pair<std::string_view, Kind> kWords[] = {
        {"tool_calls", Kind::kCalls},    {"invoke", Kind::kInvoke},
        {"parameter", Kind::kParameter}, {"function_calls", Kind::kCalls},  // V3.2
        {"calls", Kind::kCalls},                                            // V4.1
    };
    const size_t n_words = style_ == TagStyle::kExact ? 3 : 5;
    for (size_t i = 0; i < n_words; ++i) {
      if (try_take(kWords[i].first)) {
        tag_.kind = kWords[i].second;
        return;
      }
    }
    require(false);
  }

  // A closing tag that lacks its ">" ends with the line.
  void read_end_of_closing_tag() {
    if (style_ == TagStyle::kExact) {
      take(">");
      return;
    }
    while (peek() == ' ' || peek() == '\t') {
      ++pos_;
    }
    if (peek() != '\n') {
      take(">");
    }
  }

  void read_attributes() {
    bool has_name = false;
    while (fits()) {
      const bool is_spaced = skip_whitespace();
      if (try_take(">")) {
        require(has_name);
        return;
      }
      require(is_spaced);
      const std::string_view key = read_key();
      const std::string_view value = read_quoted();
      if (!fits()) {
        return;
      }
      if (key == "name" && !has_name) {
        tag_.name = value;
        has_name = true;
      } else if (key == "string") {
        read_flag(value);
      }
    }
  }

  std::string_view read_key() {
    const size_t begin = pos_;
    for (char c = peek(); (c >= 'a' && c <= 'z') || c == '_'; c = peek()) {
      ++pos_;
    }
    const std::string_view key = text_.substr(begin, pos_ - begin);
    take("=");
    return key;
  }

  std::string_view read_quoted() {
    if (try_take("\"")) {
      return read_until({"\""});
    }
    require(style_ != TagStyle::kExact);
    require(try_take("\u201C") || try_take("\u201D"));
    return read_until({"\"", "\u201C", "\u201D"});
  }

  // Up to the first of the quotes, on the same line.
  std::string_view read_until(std::initializer_list<std::string_view> quotes) {
    if (!fits()) {
      return {};
    }
    size_t end = std::string_view::npos;
    size_t next = end;
    for (const std::string_view quote : quotes) {
      if (const size_t at = rest().find(quote); at < end) {
        end = at;
        next = at + quote.size();
      }
    }
    const std::string_view value = rest().substr(0, end);
    if (value.find('\n') != std::string_view::npos) {
      match_ = Match::kNo;
    } else if (end == std::string_view::npos) {
      match_ = Match::kMaybe;
    } else {
      pos_ += next;
    }
    return value;
  }

  void read_flag(std::string_view value) {
    const auto is = [&](std::string_view word) {
      return std::ranges::equal(value, word, {}, [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    };
    if (style_ == TagStyle::kExact ? value == "true" : is("true")) {
      tag_.flag = DsmlTag::Flag::kString;
    } else if (style_ == TagStyle::kExact ? value == "false" : is("false")) {
      tag_.flag = DsmlTag::Flag::kJson;
    }
  }

  std::string_view text_;
  TagStyle style_;
  size_t pos_ = 0;
  Match match_ = Match::kYes;
  DsmlTag tag_;
};

}  // namespace

Match match_literal(std::string_view text, std::string_view literal) noexcept {
  if (text.starts_with(literal)) {
    return Match::kYes;
  }
  return literal.starts_with(text) ? Match::kMaybe : Match::kNo;
}

TagMatch match_tag(std::string_view text, TagStyle style) noexcept { return TagReader(text, style).read(); }

TagMatch match_calls(std::string_view text, TagStyle style) noexcept {
  TagMatch first = match_tag(text, style);
  if (first.match != Match::kYes) {
    return first;
  }
  if (first.tag.opens(DsmlTag::Kind::kInvoke)) {
    first.size = 0;
    return first;
  }
  if (!first.tag.opens(DsmlTag::Kind::kCalls)) {
    return {};
  }
  const size_t next = std::min(text.find_first_not_of(kWhitespace, first.size), text.size());
  if (next > kMaxTagBytes) {
    return {};
  }
  const TagMatch second = match_tag(text.substr(next), style);
  const bool is_other = second.match == Match::kYes && !second.tag.opens(DsmlTag::Kind::kInvoke);
  return {is_other ? Match::kNo : second.match, first.tag, next};
}

}  // namespace fathom
