#include "tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace fathom {
namespace {

TEST(ByteAlphabet, GivesEveryByteACharacterOfItsOwn) {
  std::set<std::string> spellings;
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    const std::string spelling = spelling_of_bytes(byte);
    EXPECT_EQ(bytes_of_spelling(spelling), byte) << b;
    spellings.insert(spelling);
  }
  EXPECT_EQ(spellings.size(), 256U);
}

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(spelling_of_bytes(std::string("\0\n A~\x7F\xA0\xA1\xAC\xAD\xAE\xFF", 12)),
            "\u0100\u010A\u0120A~\u0121\u0142\u00A1\u00AC\u0143\u00AE\u00FF");
}

TEST(ByteAlphabet, RejectsOtherCharacters) {
  EXPECT_EQ(bytes_of_spelling("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling("a\uFF5C"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling("a\u0144"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling("a\xC4"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling(""), "");
}

}  // namespace
}  // namespace fathom
