// Classes of code points that the pre-tokenizer's rules name.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom {

// No code point is in two of these: White_Space holds separators and controls only.
enum class CharClass : uint8_t {
  kOther,        // controls, formats, surrogates, private use, unassigned
  kLetter,       // L*
  kMark,         // M*
  kNumber,       // N*
  kPunctuation,  // P*
  kSymbol,       // S*
  kSpace,        // property White_Space
};

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

[[nodiscard]] CharClass char_class(char32_t c) noexcept;  // above kMaxCodePoint: kOther

// Version of the Unicode character database behind char_class.
[[nodiscard]] std::string_view unicode_version() noexcept;

}  // namespace fathom
