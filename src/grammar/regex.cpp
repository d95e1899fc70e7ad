#include "grammar/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace fathom {
namespace {

constexpr int kMaxRepeat = 100'000;
constexpr int kMaxDepth = 100;

const CharSet& digits() {
  static const CharSet set = {{'0', '9'}};
  return set;
}
const CharSet& word_chars() {
  static const CharSet set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
const CharSet& spaces() {
  static const CharSet set = {{0x9, 0xd},       {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                              {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  return set;
}
const CharSet& line_ends() {
  static const CharSet set = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

class RegexParser {
 public:
  RegexParser(Grammar& grammar, std::string_view pattern, TextCoding coding)
      : grammar_(grammar), pattern_(pattern), coding_(coding) {}

  ExprId parse(RegexMatch match) {
    const std::vector<Branch> branches = parse_branches();
    if (!done()) {
      fail("a ')' without its '('");
    }
    std::vector<ExprId> choices;
    for (const Branch& branch : branches) {
      std::vector<ExprId> parts = {branch.expr};
      if (match == RegexMatch::kAnywhere && !branch.from_begin) {
        parts.insert(parts.begin(), any_text());
      }
      if (match == RegexMatch::kAnywhere && !branch.to_end) {
        parts.push_back(any_text());
      }
      choices.push_back(grammar_.sequence(std::move(parts)));
    }
    return grammar_.choice(std::move(choices));
  }

 private:
  // One side of a '|', and which ends of the text it is tied to.
  struct Branch {
    ExprId expr = 0;
    bool from_begin = false;
    bool to_end = false;
  };
  // A part of a branch: an expression, or an anchor.
  struct Term {
    ExprId expr = 0;
    bool is_begin = false;
    bool is_end = false;
    bool from_begin = false;  // of a group whose branches are all anchored
    bool to_end = false;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kBadRequest, fmt::format("regex '{}', position {}: {}", printable(pattern_), at_, what));
  }
  [[nodiscard]] bool done() const { return at_ >= pattern_.size(); }
  [[nodiscard]] char peek() const { return done() ? '\0' : pattern_[at_]; }
  bool take(std::string_view text) {
    if (!pattern_.substr(std::min(at_, pattern_.size())).starts_with(text)) {
      return false;
    }
    at_ += text.size();
    return true;
  }
  char32_t take_char() {
    const Utf8Char c = decode_utf8(pattern_.substr(at_));
    if (c.status != Utf8Char::Status::kValid) {
      fail("not valid UTF-8");
    }
    at_ += c.size;
    return c.value;
  }
  ExprId any_text() { return grammar_.repeat(coded_chars(grammar_, CharSet::all(), coding_), 0, std::nullopt); }

  std::vector<Branch> parse_branches() {
    std::vector<Branch> branches = {parse_branch()};
    while (take("|")) {
      branches.push_back(parse_branch());
    }
    return branches;
  }

  Branch parse_branch() {
    std::vector<Term> terms;
    while (!done() && peek() != '|' && peek() != ')') {
      terms.push_back(parse_term());
    }
    Branch branch;
    std::vector<ExprId> parts;
    for (size_t i = 0; i < terms.size(); ++i) {
      const Term& term = terms[i];
      if (((term.is_begin || term.from_begin) && i > 0) || ((term.is_end || term.to_end) && i + 1 < terms.size())) {
        fail("^ and $ are supported at the ends of the text only");
      }
      branch.from_begin = branch.from_begin || term.is_begin || term.from_begin;
      branch.to_end = branch.to_end || term.is_end || term.to_end;
      if (!term.is_begin && !term.is_end) {
        parts.push_back(term.expr);
      }
    }
    branch.expr = parts.empty() ? grammar_.literal("") : grammar_.sequence(std::move(parts));
    return branch;
  }

  Term parse_term() {
    if (take("^")) {
      return {.is_begin = true};
    }
    if (take("$")) {
      return {.is_end = true};
    }
    Term term = parse_atom();
    const std::optional<std::pair<int, std::optional<int>>> counts = parse_counts();
    if (!counts) {
      return term;
    }
    if (term.from_begin || term.to_end) {
      fail("^ and $ cannot be repeated");
    }
    static_cast<void>(take("?"));  // lazy: the same texts match
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      fail("nothing to repeat");
    }
    return {.expr = grammar_.repeat(term.expr, counts->first, counts->second)};
  }

  std::optional<std::pair<int, std::optional<int>>> parse_counts() {
    if (take("*")) {
      return {{0, std::nullopt}};
    }
    if (take("+")) {
      return {{1, std::nullopt}};
    }
    if (take("?")) {
      return {{0, 1}};
    }
    const size_t begin = at_;
    if (!take("{")) {
      return std::nullopt;
    }
    const std::optional<int> min = parse_number();
    std::optional<int> max = min;
    if (take(",")) {
      max = parse_number();
    }
    if (!min || !take("}")) {
      at_ = begin;
      fail("'{' without a count like {2} or {2,5}; write \\{ for the character");
    }
    if (max && *max < *min) {
      fail(fmt::format("{{{},{}}}: the smaller count comes first", *min, *max));
    }
    return {{*min, max}};
  }

  std::optional<int> parse_number() {
    int value = 0;
    const char* end = pattern_.data() + pattern_.size();
    const auto [next, error] = std::from_chars(pattern_.data() + at_, end, value);
    if (error == std::errc::invalid_argument || peek() == '-') {
      return std::nullopt;
    }
    if (error == std::errc::result_out_of_range || value > kMaxRepeat) {
      fail(fmt::format("a count over {}", kMaxRepeat));
    }
    at_ = static_cast<size_t>(next - pattern_.data());
    return value;
  }

  Term parse_atom() {
    if (take("(")) {
      return parse_group();
    }
    if (take("[")) {
      return {.expr = coded_chars(grammar_, parse_class(), coding_)};
    }
    if (take(".")) {
      return {.expr = coded_chars(grammar_, line_ends().negated(), coding_)};
    }
    if (take("\\")) {
      if (const std::optional<CharSet> set = parse_class_escape()) {
        return {.expr = coded_chars(grammar_, *set, coding_)};
      }
      return {.expr = one_char(parse_char_escape(false))};
    }
    if (const char c = peek(); c == '*' || c == '+' || c == '?' || c == '{') {
      fail("nothing to repeat");
    }
    return {.expr = one_char(take_char())};
  }

  ExprId one_char(char32_t c) { return coded_chars(grammar_, {{c, c}}, coding_); }

  Term parse_group() {
    if (++depth_ > kMaxDepth) {
      fail(fmt::format("groups nested deeper than {}", kMaxDepth));
    }
    if (take("?<") && peek() != '=' && peek() != '!') {
      while (!done() && peek() != '>') {
        ++at_;
      }
      if (!take(">")) {
        fail("a group's name without its '>'");
      }
    } else if (pattern_[at_ - 1] == '<' || (peek() == '?' && !take("?:"))) {
      fail("look-around is not supported");
    }
    const std::vector<Branch> branches = parse_branches();
    if (!take(")")) {
      fail("a '(' without its ')'");
    }
    --depth_;
    Term term{.from_begin = branches[0].from_begin, .to_end = branches[0].to_end};
    std::vector<ExprId> choices;
    for (const Branch& branch : branches) {
      if (branch.from_begin != term.from_begin || branch.to_end != term.to_end) {
        fail("^ and $ are supported in all branches of a group or in none");
      }
      choices.push_back(branch.expr);
    }
    term.expr = grammar_.choice(std::move(choices));
    return term;
  }

  CharSet parse_class() {
    const bool negated = take("^");
    CharSet set;
    while (!take("]")) {
      if (done()) {
        fail("a '[' without its ']'");
      }
      const std::optional<char32_t> first = parse_class_member(set);
      const bool is_range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!first || !is_range) {
        if (first) {
          set.add(*first, *first);
        }
        continue;
      }
      ++at_;
      const std::optional<char32_t> last = parse_class_member(set);
      if (!last) {
        fail("a range needs one character at each end");
      }
      if (*last < *first) {
        fail("a range ends before it begins");
      }
      set.add(*first, *last);
    }
    return negated ? set.negated() : set;
  }

  // A class like \d is added to the set; anything else is returned.
  std::optional<char32_t> parse_class_member(CharSet& set) {
    if (!take("\\")) {
      return take_char();
    }
    if (const std::optional<CharSet> escaped = parse_class_escape()) {
      set.add(*escaped);
      return std::nullopt;
    }
    return parse_char_escape(true);
  }

  // After a backslash.
  std::optional<CharSet> parse_class_escape() {
    const CharSet* set = nullptr;
    switch (peek()) {
      case 'd':
      case 'D':
        set = &digits();
        break;
      case 'w':
      case 'W':
        set = &word_chars();
        break;
      case 's':
      case 'S':
        set = &spaces();
        break;
      case 'p':
      case 'P':
        fail("Unicode properties (\\p) are not supported");
      default:
        return std::nullopt;
    }
    const bool negated = peek() < 'a';
    ++at_;
    return negated ? set->negated() : *set;
  }

  char32_t parse_char_escape(bool in_class) {
    if (done()) {
      fail("a backslash at the end");
    }
    const char32_t c = take_char();
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case '0':
        return 0;
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_unicode_escape();
      case 'b':
        if (in_class) {
          return '\b';
        }
        [[fallthrough]];
      case 'B':
        fail("word borders (\\b) are not supported");
      default:
        if (c >= '1' && c <= '9') {
          fail("back references are not supported");
        }
        if (c == 'k' || c == 'c' || (c < 0x80 && word_chars().contains(c))) {
          fail(fmt::format("unknown escape \\{}", static_cast<char>(c)));
        }
        return c;
    }
  }

  char32_t parse_hex(size_t n_digits) {
    uint32_t value = 0;
    const std::string_view hex = pattern_.substr(at_, n_digits);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (hex.size() != n_digits || error != std::errc() || end != hex.data() + hex.size()) {
      fail(fmt::format("expected {} hexadecimal digits", n_digits));
    }
    at_ += n_digits;
    return value;
  }

  char32_t parse_unicode_escape() {
    char32_t value = 0;
    if (take("{")) {
      const size_t end = pattern_.find('}', at_);
      const size_t n_digits = end == std::string_view::npos ? 0 : end - at_;
      value = n_digits >= 1 && n_digits <= 6 ? parse_hex(n_digits) : 0x110000;
      ++at_;
    } else {
      value = parse_hex(4);
      if (value >= 0xd800 && value < 0xdc00 && take("\\u")) {
        const char32_t low = parse_hex(4);
        value = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00) : 0x110000;
      }
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      fail("an escape that is no Unicode character");
    }
    return value;
  }

  Grammar& grammar_;
  std::string_view pattern_;
  TextCoding coding_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ExprId add_regex(Grammar& grammar, std::string_view pattern, RegexMatch match, TextCoding coding) {
  return RegexParser(grammar, pattern, coding).parse(match);
}

Grammar regex_grammar(std::string_view pattern) {
  Grammar grammar;
  grammar.root = grammar.add_rule("regex");
  grammar.define(grammar.root, add_regex(grammar, pattern, RegexMatch::kWhole, TextCoding::kPlain));
  return grammar;
}

}  // namespace fathom
