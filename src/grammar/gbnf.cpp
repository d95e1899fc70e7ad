#include "grammar/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace fathom {
namespace {

constexpr int kMaxRepeat = 100'000;
constexpr int kMaxDepth = 100;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Grammar parse() {
    skip_space(true);
    while (!done()) {
      parse_rule();
      skip_space(true);
    }
    const std::pair<const std::string, Rule>* undefined = nullptr;
    for (const auto& entry : rules_) {
      if (!entry.second.defined && (undefined == nullptr || entry.second.first_use < undefined->second.first_use)) {
        undefined = &entry;
      }
    }
    if (undefined != nullptr) {
      at_ = undefined->second.first_use;
      fail(fmt::format("rule '{}' is not defined", printable(undefined->first)));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      fail("there is no rule 'root'");
    }
    grammar_.root = root->second.id;
    return std::move(grammar_);
  }

 private:
  struct Rule {
    RuleId id = 0;
    bool defined = false;
    size_t first_use = 0;
  };

  [[noreturn]] void fail(const std::string& what) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
    const auto line = 1 + std::count(text_.begin(), end, '\n');
    throw Error(ErrorCode::kBadRequest, fmt::format("grammar, line {}: {}", line, what));
  }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return done() ? '\0' : text_[at_]; }
  bool take(std::string_view text) {
    if (!text_.substr(std::min(at_, text_.size())).starts_with(text)) {
      return false;
    }
    at_ += text.size();
    return true;
  }
  void skip_space(bool over_lines) {
    while (!done()) {
      const char c = peek();
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  char32_t take_char() {
    const Utf8Char c = decode_utf8(text_.substr(at_));
    if (c.status != Utf8Char::Status::kValid) {
      fail("not valid UTF-8");
    }
    at_ += c.size;
    return c.value;
  }

  std::string take_name() {
    const size_t begin = at_;
    while (is_name_char(peek())) {
      ++at_;
    }
    if (begin == at_) {
      fail(done() ? "a rule ends too early" : fmt::format("unexpected '{}'", printable(text_.substr(at_, 1))));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Rule& rule_named(const std::string& name) {
    const auto [place, is_new] = rules_.try_emplace(name);
    if (is_new) {
      place->second = {.id = grammar_.add_rule(name, true), .first_use = at_};
    }
    return place->second;
  }

  void parse_rule() {
    const std::string name = take_name();
    skip_space(false);
    if (!take("::=")) {
      fail(fmt::format("expected '::=' after '{}'", printable(name)));
    }
    Rule& rule = rule_named(name);
    if (rule.defined) {
      fail(fmt::format("rule '{}' is defined twice", printable(name)));
    }
    rule.defined = true;
    const RuleId id = rule.id;
    skip_space(true);
    grammar_.define(id, parse_choices(false));
    skip_space(false);
    if (!done() && peek() != '\n' && peek() != '\r') {
      fail(fmt::format("unexpected '{}'", printable(text_.substr(at_, 1))));
    }
  }

  // Inside parentheses a line end is space.
  ExprId parse_choices(bool nested) {
    std::vector<ExprId> choices = {parse_sequence(nested)};
    while (true) {
      const size_t before = at_;
      skip_space(true);
      if (!take("|")) {
        at_ = nested ? at_ : before;
        break;
      }
      skip_space(true);
      choices.push_back(parse_sequence(nested));
    }
    return grammar_.choice(std::move(choices));
  }

  ExprId parse_sequence(bool nested) {
    std::vector<ExprId> parts;
    while (true) {
      skip_space(nested);
      const char c = peek();
      if (done() || c == '|' || c == ')' || c == '\n' || c == '\r') {
        break;
      }
      parts.push_back(parse_counts(parse_atom()));
    }
    return parts.empty() ? grammar_.literal("") : grammar_.sequence(std::move(parts));
  }

  ExprId parse_atom() {
    if (take("\"")) {
      return parse_literal();
    }
    if (take("[")) {
      return grammar_.chars(parse_class());
    }
    if (take(".")) {
      return grammar_.chars(CharSet::all());
    }
    if (take("(")) {
      if (++depth_ > kMaxDepth) {
        fail(fmt::format("parentheses nested deeper than {}", kMaxDepth));
      }
      const ExprId inner = parse_choices(true);
      if (!take(")")) {
        fail("a '(' without its ')'");
      }
      --depth_;
      return inner;
    }
    const std::string name = take_name();
    return grammar_.rule(rule_named(name).id);
  }

  ExprId parse_literal() {
    std::string bytes;
    while (!take("\"")) {
      if (done() || peek() == '\n') {
        fail("a '\"' without its end");
      }
      if (peek() != '\\') {
        bytes += text_[at_++];
        continue;
      }
      append_utf8(bytes, take_escape());
    }
    if (!is_valid_utf8(bytes)) {
      fail("not valid UTF-8");
    }
    return grammar_.literal(bytes);
  }

  CharSet parse_class() {
    const bool negated = take("^");
    CharSet set;
    while (!take("]")) {
      if (done()) {
        fail("a '[' without its ']'");
      }
      const char32_t first = class_char();
      char32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = class_char();
      }
      if (last < first) {
        fail("a range ends before it begins");
      }
      set.add(first, last);
    }
    return negated ? set.negated() : set;
  }

  char32_t class_char() {
    if (done()) {
      fail("a '[' without its ']'");
    }
    return peek() == '\\' ? take_escape() : take_char();
  }

  char32_t take_escape() {
    ++at_;
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        at_ = std::min(at_ - 1, text_.size());
        fail("unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
    }
  }

  char32_t parse_hex(size_t n_digits) {
    uint32_t value = 0;
    const std::string_view hex = text_.substr(std::min(at_, text_.size()), n_digits);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (hex.size() != n_digits || error != std::errc() || end != hex.data() + hex.size()) {
      fail(fmt::format("expected {} hexadecimal digits", n_digits));
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      fail("an escape that is no Unicode character");
    }
    at_ += n_digits;
    return value;
  }

  ExprId parse_counts(ExprId part) {
    int depth = 0;
    while (true) {
      if (take("*")) {
        part = grammar_.repeat(part, 0, std::nullopt);
      } else if (take("+")) {
        part = grammar_.repeat(part, 1, std::nullopt);
      } else if (take("?")) {
        part = grammar_.optional(part);
      } else if (take("{")) {
        const auto [min, max] = parse_range();
        part = grammar_.repeat(part, min, max);
      } else {
        return part;
      }
      if (++depth > kMaxDepth) {
        fail(fmt::format("more than {} counts after each other", kMaxDepth));
      }
    }
  }

  std::pair<int, std::optional<int>> parse_range() {
    const int min = parse_number();
    std::optional<int> max = min;
    if (take(",")) {
      max = peek() == '}' ? std::nullopt : std::optional(parse_number());
    }
    if (!take("}")) {
      fail("a '{' without its '}'");
    }
    if (max && *max < min) {
      fail(fmt::format("{{{},{}}}: the smaller count comes first", min, *max));
    }
    return {min, max};
  }

  int parse_number() {
    int value = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range || value < 0 || value > kMaxRepeat) {
      fail(fmt::format("a count outside 0 to {}", kMaxRepeat));
    }
    if (error != std::errc()) {
      fail("expected a count");
    }
    at_ += static_cast<size_t>(end - digits.data());
    return value;
  }

  static void append_utf8(std::string& out, char32_t c) {
    const std::vector<ByteRanges> sequences = utf8_ranges({{c, c}});
    for (const ByteRange& byte : sequences.at(0)) {
      out += static_cast<char>(byte.first);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  Grammar grammar_;
  std::unordered_map<std::string, Rule> rules_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace fathom
