#include "cli/token_ids.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace fathom::cli {
namespace {

void parse(std::string_view text, const std::string& source) { static_cast<void>(parse_token_ids(text, 10, source)); }

TEST(TokenIds, AreSeparatedByAnyWhitespace) {
  EXPECT_EQ(parse_token_ids(" 1 2\t3\r\n\n0\n", 4, "ids"), (std::vector<TokenId>{1, 2, 3, 0}));
  EXPECT_TRUE(parse_token_ids(" \n", 4, "ids").empty());
}

TEST(TokenIds, SurviveFormatting) {
  const std::vector<TokenId> ids{7, 0, 129279};
  EXPECT_EQ(parse_token_ids(format_token_ids(ids), 129280, "ids"), ids);
}

TEST(TokenIds, NameTheLineOfAWordThatIsNoNumber) {
  EXPECT_ERROR(parse("1 2\n3 4,5\n", "ids.txt"), ErrorCode::kBadRequest, "ids.txt: line 2: '4,5' is not a token id");
  EXPECT_ERROR(parse("\n\n0x1", "ids.txt"), ErrorCode::kBadRequest, "line 3: '0x1'");
  EXPECT_ERROR(parse(std::string(100, 'x'), "f"), ErrorCode::kBadRequest, std::string(40, 'x') + "...'");
}

TEST(TokenIds, MustLieInTheVocabulary) {
  EXPECT_ERROR(parse("9 10", "f"), ErrorCode::kBadRequest, "'10' is outside the vocabulary, expected 0 to 9");
  EXPECT_ERROR(parse("-1", "f"), ErrorCode::kBadRequest, "'-1' is outside the vocabulary");
  EXPECT_ERROR(parse("99999999999", "f"), ErrorCode::kBadRequest, "is outside the vocabulary");
}

}  // namespace
}  // namespace fathom::cli
