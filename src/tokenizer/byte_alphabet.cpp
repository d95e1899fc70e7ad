#include "tokenizer/byte_alphabet.h"

#include <array>

#include "core/utf8.h"

namespace fathom {
namespace {

constexpr size_t kNumBytes = 256;
constexpr char32_t kAlphabetEnd = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, kNumBytes> char_of{};
  std::array<int16_t, kAlphabetEnd> byte_of{};  // -1: not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char32_t next = 0x100;
  for (char32_t b = 0; b < kNumBytes; ++b) {
    const bool is_printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const char32_t c = is_printable ? b : next++;
    alphabet.char_of[b] = c;
    alphabet.byte_of[c] = static_cast<int16_t>(b);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_alphabet_char(uint8_t byte) noexcept { return kAlphabet.char_of[byte]; }

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  while (!spelling.empty()) {
    const Utf8Char c = decode_utf8(spelling);
    if (c.status != Utf8Char::Status::kValid || c.value >= kAlphabetEnd || kAlphabet.byte_of[c.value] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kAlphabet.byte_of[c.value]);
    spelling.remove_prefix(c.size);
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) {
    const char32_t c = byte_alphabet_char(static_cast<uint8_t>(byte));
    if (c < 0x80) {
      spelling += static_cast<char>(c);
    } else {  // the alphabet ends far below U+0800: two bytes
      spelling += static_cast<char>(0xC0 | (c >> 6));
      spelling += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return spelling;
}

}  // namespace fathom
