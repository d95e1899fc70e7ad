// GPT-2's byte alphabet: vocabularies spell every byte as one printable character, so that tokens are strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves; the other 68 bytes are U+0100, U+0101, ... in order.
[[nodiscard]] char32_t byte_alphabet_char(uint8_t byte) noexcept;

// The bytes that a token string spells; nothing when a character of it is not in the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of_spelling(std::string_view spelling);

// The token string of these bytes.
[[nodiscard]] std::string spelling_of_bytes(std::string_view bytes);

}  // namespace fathom
