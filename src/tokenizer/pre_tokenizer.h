// Cuts text into the pieces that BPE works on, as three regular-expression splits would:
//   1. \p{N}{1,3}
//   2. [\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+
//   3. [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//      | ?[\p{P}\p{S}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
// Each works on the pieces the one before left, and what it does not match is a piece too. Takes time linear in the
// text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/unicode.h"

namespace fathom {

enum class PreTokenizer : uint8_t {
  kDeepSeekV3,              // as above
  kDeepSeekV3SingleDigits,  // the first split is \p{N}
};

class PieceScanner {
 public:
  // `text` outlives the scanner. Ill-formed UTF-8 counts as unassigned characters, one per maximal subpart.
  PieceScanner(std::string_view text, PreTokenizer kind) noexcept;

  // The next piece; empty at the end of the text. All pieces together are the text.
  [[nodiscard]] std::string_view next() noexcept;

 private:
  struct Char {
    char32_t value = 0;
    CharClass char_class = CharClass::kOther;
    size_t size = 0;  // 0: the end
  };

  // The character at `pos`, or the end.
  [[nodiscard]] Char at(size_t pos, size_t end) const noexcept;
  [[nodiscard]] Char at(size_t pos) const noexcept { return at(pos, segment_end_); }
  template <class Predicate>
  [[nodiscard]] size_t skip(size_t pos, Predicate predicate) const noexcept;

  [[nodiscard]] size_t find_segment_end(size_t pos) const noexcept;
  [[nodiscard]] size_t match(size_t pos) const noexcept;
  [[nodiscard]] size_t match_spaces(size_t pos) const noexcept;

  std::string_view text_;
  size_t digits_per_piece_;
  size_t pos_ = 0;
  size_t segment_end_ = 0;  // of what splits 1 and 2 left around pos_
};

}  // namespace fathom
