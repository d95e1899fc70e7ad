#include "chat/reply_text_filters.h"

#include <gtest/gtest.h>

#include "core/prompt_text.h"

namespace fathom {
namespace {

bool in_code_after(std::string_view text) {
  CodeTracker code;
  code.feed(text);
  return code.in_code();
}

TEST(CodeTracker, FollowsFencesAndSpans) {
  EXPECT_FALSE(in_code_after("text"));
  EXPECT_TRUE(in_code_after("a `"));
  EXPECT_FALSE(in_code_after("a `b`"));
  EXPECT_FALSE(in_code_after("a `b\n"));
  EXPECT_TRUE(in_code_after("```xml\n"));
  EXPECT_TRUE(in_code_after("```xml\ncode `\n"));
  EXPECT_TRUE(in_code_after("  ````\ncode"));
  EXPECT_FALSE(in_code_after("```\ncode\n```"));
  EXPECT_FALSE(in_code_after("```\ncode\n```\n"));
  EXPECT_FALSE(in_code_after("a ``` b ```"));
}

TEST(MarkFilter, ReplacesTheMarkHoweverItArrives) {
  const std::string mark(literal::kDsml);
  const std::string text = "a " + mark + mark + " \uFF5C\uFF5CDS" + mark + "ML\uFF5C";
  const std::string expected = "a |DSML||DSML| \uFF5C\uFF5CDS|DSML|ML\uFF5C";
  for (size_t size = 1; size <= text.size(); ++size) {
    MarkFilter filter;
    std::string out;
    for (size_t i = 0; i < text.size(); i += size) {
      out += filter.push(std::string_view(text).substr(i, size));
    }
    EXPECT_EQ(out + filter.finish(), expected) << size;
  }
}

TEST(MarkFilter, HoldsBackNoMoreThanMayBecomeAMark) {
  MarkFilter filter;
  EXPECT_EQ(filter.push("abc\uFF5CDSML"), "abc");
  EXPECT_EQ(filter.push("x"), "\uFF5CDSMLx");
  EXPECT_EQ(filter.finish(), "");
}

}  // namespace
}  // namespace fathom
