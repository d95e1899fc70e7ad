#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/read_file.h"

namespace fathom {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text, PreTokenizer kind = PreTokenizer::kDeepSeekV3) {
  Pieces pieces;
  PieceScanner scanner(text, kind);
  for (std::string_view piece = scanner.next(); !piece.empty(); piece = scanner.next()) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

TEST(PreTokenizer, CutsTheEdgeCases) {
  const auto cases = nlohmann::json::parse(test::read_file(FATHOM_TEST_DATA_DIR "/encoding/tokenizer_edge_cases.json"));
  int n_checked = 0;
  for (const auto& c : cases) {
    const auto pieces = c.at("pieces").get<Pieces>();
    if (!pieces.empty()) {  // empty where the text has added tokens, which are not the pre-tokenizer's business
      EXPECT_EQ(split(c.at("text").get<std::string>()), pieces) << c.at("text");
      ++n_checked;
    }
  }
  EXPECT_EQ(n_checked, 51);
}

TEST(PreTokenizer, CutsDigitsFromTheLeftInAnyScript) {
  EXPECT_EQ(split("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(split("12\u0663\u2167x"), (Pieces{"12\u0663", "\u2167", "x"}));
  EXPECT_EQ(split("a 12"), (Pieces{"a", " ", "12"}));
  EXPECT_EQ(split("1234 a", PreTokenizer::kDeepSeekV3SingleDigits), (Pieces{"1", "2", "3", "4", " a"}));
}

TEST(PreTokenizer, CjkRunsBoundTheLookAhead) {
  EXPECT_EQ(split("x  \u4E2D"), (Pieces{"x", "  ", "\u4E2D"}));
  EXPECT_EQ(split(" \u4E2D\u9FA5\u9FA6"), (Pieces{" ", "\u4E2D\u9FA5", "\u9FA6"}));
  EXPECT_EQ(split(" \u9FA6"), (Pieces{" \u9FA6"}));
  EXPECT_EQ(split("\u9FA6\u3041\u30FF\u9FA6"), (Pieces{"\u9FA6", "\u3041\u30FF", "\u9FA6"}));
}

TEST(PreTokenizer, CutsWhiteSpaceAtTheLastLineBreak) {
  EXPECT_EQ(split("  \n \r\n  x"), (Pieces{"  \n \r\n", " ", " x"}));
  EXPECT_EQ(split(" \n "), (Pieces{" \n", " "}));
  EXPECT_EQ(split("\nx\r\nx"), (Pieces{"\n", "x", "\r\n", "x"}));
  EXPECT_EQ(split("\t\tx"), (Pieces{"\t", "\tx"}));
  EXPECT_EQ(split("  !"), (Pieces{" ", " !"}));
  EXPECT_EQ(split("\t!"), (Pieces{"\t", "!"}));
  EXPECT_EQ(split("\u2028\u2028x"), (Pieces{"\u2028", "\u2028x"}));
}

TEST(PreTokenizer, JoinsUnmatchedCharacters) {
  EXPECT_EQ(split(std::string("\0\1\0", 3)), (Pieces{std::string("\0\1\0", 3)}));
  EXPECT_EQ(split("\x01\x02"
                  "a\x03!"),
            (Pieces{"\x01",
                    "\x02"
                    "a",
                    "\x03", "!"}));
  EXPECT_EQ(split("\u200B\u200B x"), (Pieces{"\u200B\u200B", " x"}));
}

TEST(PreTokenizer, TakesIllFormedBytesForUnassignedCharacters) {
  EXPECT_EQ(split("\xFF\xFE"), (Pieces{"\xFF\xFE"}));
  EXPECT_EQ(split("\xFF\xE4\xB8"
                  "a"),
            (Pieces{"\xFF",
                    "\xE4\xB8"
                    "a"}));
  EXPECT_EQ(split("a\xF0\x9F"), (Pieces{"a", "\xF0\x9F"}));
}

TEST(PreTokenizer, PiecesOfRandomBytesAreTheText) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 24, '\0');
    for (char& c : text) {
      c = random() % 2 == 0 ? static_cast<char>(random() % 128) : static_cast<char>(random() % 256);
    }
    std::string joined;
    for (const std::string& piece : split(text)) {
      ASSERT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace fathom
