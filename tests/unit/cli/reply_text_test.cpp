#include "cli/reply_text.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/test_tokenizers.h"

namespace fathom::cli {
namespace {

class ReplyTextTest : public testing::Test {
 protected:
  // Tokens of `text`, one per byte where no longer token exists; literals count as control tokens.
  [[nodiscard]] std::vector<TokenId> tokens(std::string_view text) const { return tokenizer_.encode(text); }

  // All of a reply's text.
  ReplyPiece read(ReplyText& reply, const std::vector<TokenId>& ids) {
    ReplyPiece all;
    const auto add = [&](const ReplyPiece& piece) {
      all.reasoning += piece.reasoning;
      all.answer += piece.answer;
    };
    for (const TokenId id : ids) {
      add(reply.push(id));
    }
    add(reply.finish());
    return all;
  }

  Tokenizer tokenizer_{test::bundled_tokenizer_data()};
};

TEST_F(ReplyTextTest, SplitsReasoningFromTheAnswer) {
  ReplyText reply(tokenizer_, ReplyText::Start::kReasoning, {});
  const ReplyPiece all = read(reply, tokens("Two and two.</think>Four."));
  EXPECT_EQ(all.reasoning, "Two and two.");
  EXPECT_EQ(all.answer, "Four.");
}

TEST_F(ReplyTextTest, HidesControlTokensOfAnAnswerButNotOfRawText) {
  const std::string text = "a" + std::string(literal::kUser) + "b";
  ReplyText answer(tokenizer_, ReplyText::Start::kAnswer, {});
  EXPECT_EQ(read(answer, tokens(text)).answer, "ab");
  ReplyText raw(tokenizer_, ReplyText::Start::kRaw, {});
  EXPECT_EQ(read(raw, tokens(text)).answer, text);
}

TEST_F(ReplyTextTest, ShowsWholeCharactersOnly) {
  const std::vector<TokenId> ids = tokens("\xE2\x82\xAC");
  ASSERT_GT(ids.size(), 1U) << "the small vocabulary has no token for the euro sign";
  ReplyText reply(tokenizer_, ReplyText::Start::kAnswer, {});
  EXPECT_EQ(reply.push(ids[0]).answer, "");
  ReplyText cut(tokenizer_, ReplyText::Start::kAnswer, {});
  EXPECT_EQ(read(cut, {ids.begin(), ids.end() - 1}).answer, "\xEF\xBF\xBD");
}

TEST_F(ReplyTextTest, StopsInTheAnswerOnly) {
  ReplyText reply(tokenizer_, ReplyText::Start::kReasoning, {"stop"});
  const ReplyPiece all = read(reply, tokens("I stop to think.</think>Go, then stop here."));
  EXPECT_EQ(all.reasoning, "I stop to think.");
  EXPECT_EQ(all.answer, "Go, then ");
  EXPECT_TRUE(reply.stopped());
}

TEST_F(ReplyTextTest, ReleasesTheBeginningOfAStopThatNeverCame) {
  ReplyText reply(tokenizer_, ReplyText::Start::kAnswer, {"stopping"});
  EXPECT_EQ(read(reply, tokens("Now stop")).answer, "Now stop");
  EXPECT_FALSE(reply.stopped());
}

TEST_F(ReplyTextTest, RejectsAnEmptyStop) {
  EXPECT_ERROR(ReplyText(tokenizer_, ReplyText::Start::kAnswer, {""}), ErrorCode::kBadRequest, "stop");
}

}  // namespace
}  // namespace fathom::cli
