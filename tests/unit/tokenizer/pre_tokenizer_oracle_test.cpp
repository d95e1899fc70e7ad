// The hand-written scanner against the regular expressions themselves, run by PCRE2.
#include <gtest/gtest.h>

#include "tokenizer/pre_tokenizer.h"

#ifndef FATHOM_HAVE_PCRE2

TEST(PreTokenizerOracle, AgreesOnRandomStrings) { GTEST_SKIP() << "built without libpcre2"; }

#else

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {
namespace {

using Pieces = std::vector<std::string_view>;

class Regex {
 public:
  explicit Regex(const std::string& pattern) {
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &offset, nullptr));
    if (code_ == nullptr) {
      throw std::runtime_error("cannot compile " + pattern);
    }
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  // Appends the matches and what lies between them.
  void split(std::string_view text, Pieces& pieces) const {
    size_t done = 0;
    while (done < text.size() && pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done,
                                             0, match_.get(), nullptr) > 0) {
      const size_t* span = pcre2_get_ovector_pointer(match_.get());
      if (span[0] > done) {
        pieces.push_back(text.substr(done, span[0] - done));
      }
      pieces.push_back(text.substr(span[0], span[1] - span[0]));
      done = span[1];
    }
    if (done < text.size()) {
      pieces.push_back(text.substr(done));
    }
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

// \s is spelled out: PCRE2's has U+180E, which is not White_Space.
const std::string kSpaces =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
const std::string kSpace = "[" + kSpaces + "]";
const std::string kNoSpace = "[^" + kSpaces + "]";
const std::string kWords = R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)re"
                           R"re(| ?[\p{P}\p{S}]+[\r\n]*|)re" +
                           kSpace + R"(*[\r\n]+|)" + kSpace + "+(?!" + kNoSpace + ")|" + kSpace + "+";

Pieces split_by_regexes(std::string_view text) {
  static const Regex splits[] = {Regex(R"(\p{N}{1,3})"),
                                 Regex(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"), Regex(kWords)};
  Pieces pieces = {text};
  for (const Regex& regex : splits) {
    Pieces next;
    for (const std::string_view piece : pieces) {
      regex.split(piece, next);
    }
    pieces = std::move(next);
  }
  return pieces;
}

Pieces split_by_scanner(std::string_view text) {
  Pieces pieces;
  PieceScanner scanner(text, PreTokenizer::kDeepSeekV3);
  for (std::string_view piece = scanner.next(); !piece.empty(); piece = scanner.next()) {
    pieces.push_back(piece);
  }
  return pieces;
}

// Characters that have had their category since long before Unicode 10: PCRE2's tables may be older than ours.
const std::vector<std::vector<std::string>> kPools = {
    {" ", "\t", "\n", "\r"},
    {" ", "\n"},
    {"a", "z", "A", "Z"},
    {"0", "9", "\u00B2", "\u00BD", "\u2167", "\u3007", "\u0663"},
    {"!", "\"", "#", "$", "%", "&", "'", "(", ")", "*", "+", ",", "-", ".", "/", ":"},
    {";", "<", "=", ">", "?", "@", "[", "\\", "]", "^", "_", "`", "{", "|", "}", "~"},
    {"\u4E00", "\u9FA5", "\u3040", "\u3042", "\u30A0", "\u30A2", "\u30FB", "\u30FF"},
    {"\u9FA6", "\u3005", "\u3400", "\uD55C", "\u00E9", "\u0416", "\u05D0", "\u0E01", "\U00010400"},
    {"\u0301", "\u05B0", "\u0903", "\u20DD", "\uFE0F"},
    {"\u2014", "\u201C", "\u3002", "\uFF01", "\u00BF"},
    {"\u20AC", "\u2211", "\u00A8", "\u00A9", "\U0001F600", "\U0001F3FD"},
    {"\u00A0", "\u3000", "\u2003", "\u2028", "\u2029", "\u1680", "\u0085", "\v", "\f"},
    {std::string(1, '\0'), "\x01", "\x1C", "\x1F", "\x7F", "\u200B", "\uFEFF", "\u00AD", "\u180E", "\uE000", "\uFFFF"},
};

TEST(PreTokenizerOracle, AgreesOnRandomStrings) {
  std::mt19937 random(20240817);
  const auto pick = [&](const auto& list) -> const auto& { return list[random() % list.size()]; };
  for (int i = 0; i < 60000; ++i) {
    std::string text;
    const auto* pool = &pick(kPools);
    for (size_t n = 1 + random() % 24; n > 0; --n) {
      pool = random() % 3 == 0 ? &pick(kPools) : pool;
      text += pick(*pool);
    }
    ASSERT_EQ(split_by_scanner(text), split_by_regexes(text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace fathom

#endif
