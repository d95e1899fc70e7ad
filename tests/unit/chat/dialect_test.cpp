#include "chat/dialect.h"

#include <gtest/gtest.h>

#include "support/fnv.h"

namespace fathom {
namespace {

TEST(Dialect, ComesFromTheFirstLabelThatDecides) {
  EXPECT_EQ(detect_dialect({}), ChatDialect::kPreview);
  EXPECT_EQ(detect_dialect({.name = "DeepSeek-V4-Flash-0731"}), ChatDialect::kOfficial);
  EXPECT_EQ(detect_dialect({.base_version = "0813"}), ChatDialect::kOfficial);
  EXPECT_EQ(detect_dialect({.chat_template = "... Beyond maximum ..."}), ChatDialect::kOfficial);
  EXPECT_EQ(detect_dialect({.dialect = "preview", .name = "V4-Pro-0813"}), ChatDialect::kPreview);
  EXPECT_EQ(detect_dialect({.dialect = "official"}), ChatDialect::kOfficial);
}

TEST(Dialect, EffortTextsAreTheOfficialOnes) {
  const std::string_view absolute = effort_text(ChatDialect::kOfficial, Thinking::kHigh);
  EXPECT_EQ(absolute.size(), 476U);
  EXPECT_EQ(test::fnv(absolute), 0x2923c4c9fd327036U);
  const std::string_view beyond = effort_text(ChatDialect::kOfficial, Thinking::kMax);
  EXPECT_EQ(beyond.size(), 528U);
  EXPECT_EQ(test::fnv(beyond), 0x29b91217e5caa15U);
}

TEST(Dialect, EffortIsOneLevelLowerInThePreview) {
  EXPECT_EQ(effort_text(ChatDialect::kPreview, Thinking::kMax), effort_text(ChatDialect::kOfficial, Thinking::kHigh));
  EXPECT_EQ(effort_text(ChatDialect::kPreview, Thinking::kHigh), "");
  for (const ChatDialect dialect : {ChatDialect::kPreview, ChatDialect::kOfficial}) {
    EXPECT_EQ(effort_text(dialect, Thinking::kOff), "");
    EXPECT_EQ(effort_text(dialect, Thinking::kLow), "");
  }
}

}  // namespace
}  // namespace fathom
