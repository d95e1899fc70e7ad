#include "chat/dsml_tag.h"

#include <gtest/gtest.h>

#include <string>

#include "core/prompt_text.h"

namespace fathom {
namespace {

using Kind = DsmlTag::Kind;
using Flag = DsmlTag::Flag;

const std::string kMark(literal::kDsml);

void expect_tag(const std::string& text, TagStyle style, const DsmlTag& expected) {
  SCOPED_TRACE(text);
  const std::string followed = text + "rest";  // the match views it
  const TagMatch found = match_tag(followed, style);
  ASSERT_EQ(found.match, Match::kYes);
  EXPECT_EQ(found.size, text.size());
  EXPECT_EQ(found.tag.kind, expected.kind);
  EXPECT_EQ(found.tag.closes, expected.closes);
  EXPECT_EQ(found.tag.name, expected.name);
  EXPECT_EQ(found.tag.flag, expected.flag);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(match_tag(text.substr(0, size), style).match, Match::kMaybe) << size;
  }
}

void expect_no_tag(const std::string& text, TagStyle style) {
  SCOPED_TRACE(text);
  EXPECT_EQ(match_tag(text, style).match, Match::kNo);
}

TEST(DsmlTag, ReadsWhatTheRendererWrites) {
  for (const TagStyle style : {TagStyle::kExact, TagStyle::kTolerant, TagStyle::kBare}) {
    expect_tag("<" + kMark + "tool_calls>", style, {.kind = Kind::kCalls});
    expect_tag("</" + kMark + "tool_calls>", style, {.kind = Kind::kCalls, .closes = true});
    expect_tag("<" + kMark + "invoke name=\"get > it\">", style, {.kind = Kind::kInvoke, .name = "get > it"});
    expect_tag("</" + kMark + "invoke>", style, {.kind = Kind::kInvoke, .closes = true});
    expect_tag("<" + kMark + "parameter name=\"\" string=\"true\">", style,
               {.kind = Kind::kParameter, .flag = Flag::kString});
    expect_tag("<" + kMark + "parameter name=\"k\" string=\"false\">", style,
               {.kind = Kind::kParameter, .name = "k", .flag = Flag::kJson});
    expect_tag("</" + kMark + "parameter>", style, {.kind = Kind::kParameter, .closes = true});
  }
}

TEST(DsmlTag, ReadsVariantsWhenTolerant) {
  const DsmlTag calls{.kind = Kind::kCalls};
  for (const std::string mark : {"\uFF5C\uFF5CDSML\uFF5C\uFF5C", "|DSML|", "DSML\uFF5C", "\uFF5CDSML|"}) {
    expect_tag("<" + mark + "tool_calls>", TagStyle::kTolerant, calls);
    expect_no_tag("<" + mark + "tool_calls>", TagStyle::kExact);
  }
  for (const std::string tag : {" tool_calls>", "function_calls>", " calls >"}) {
    expect_tag("<" + kMark + tag, TagStyle::kTolerant, calls);
    expect_no_tag("<" + kMark + tag, TagStyle::kExact);
  }
  expect_tag("<" + kMark + "invoke name=\u201Cf\u201D>", TagStyle::kTolerant, {.kind = Kind::kInvoke, .name = "f"});
  expect_no_tag("<" + kMark + "invoke name=\u201Cf\u201D>", TagStyle::kExact);
  expect_tag("<" + kMark + " parameter string=\"True\"\n name=\"k\" >", TagStyle::kTolerant,
             {.kind = Kind::kParameter, .name = "k", .flag = Flag::kString});
  expect_tag("<" + kMark + "parameter name=\"k\" string=\"no\">", TagStyle::kTolerant,
             {.kind = Kind::kParameter, .name = "k"});
}

TEST(DsmlTag, AClosingTagMayEndWithTheLine) {
  const std::string tag = "</" + kMark + "parameter ";
  EXPECT_EQ(match_tag(tag, TagStyle::kTolerant).match, Match::kMaybe);
  const TagMatch found = match_tag(tag + "\n", TagStyle::kTolerant);
  EXPECT_EQ(found.match, Match::kYes);
  EXPECT_EQ(found.size, tag.size());
  expect_no_tag(tag + "x", TagStyle::kTolerant);
}

TEST(DsmlTag, NeedsTheMarkUnlessBare) {
  for (const std::string tag : {"<tool_calls>", "<invoke name=\"f\">"}) {
    expect_no_tag(tag, TagStyle::kTolerant);
    EXPECT_EQ(match_tag(tag, TagStyle::kBare).match, Match::kYes);
  }
  expect_no_tag("<DSMLtool_calls>", TagStyle::kBare);
}

TEST(DsmlTag, RejectsEverythingElse) {
  for (const std::string& text :
       {std::string("x"), std::string("<x"), "<" + kMark + "tools>", "<" + kMark + "tool_calls name=\"x\">",
        "<" + kMark + "invoke>", "<" + kMark + "invoke name>", "<" + kMark + "invoke name=f>",
        "<" + kMark + "invoke string=\"true\">", "<" + kMark + "invoke name=\"two\nlines\">",
        "<" + kMark + "invokename=\"f\">", "<" + kMark + "parameters name=\"f\">"}) {
    expect_no_tag(text, TagStyle::kTolerant);
  }
}

TEST(DsmlTag, HoldsNothingBackForLong) {
  const std::string open = "<" + kMark + "invoke name=\"";
  const std::string fits = open + std::string(1024 - open.size() - 2, 'x');
  EXPECT_EQ(match_tag(fits, TagStyle::kTolerant).match, Match::kMaybe);
  EXPECT_EQ(match_tag(fits + "\">", TagStyle::kTolerant).match, Match::kYes);
  EXPECT_EQ(match_tag(fits + "x\">", TagStyle::kTolerant).match, Match::kNo);
  EXPECT_EQ(match_tag(fits + "xxx", TagStyle::kTolerant).match, Match::kNo);
  EXPECT_EQ(match_calls("<" + kMark + "tool_calls>" + std::string(2000, ' '), TagStyle::kTolerant).match, Match::kNo);
}

TEST(DsmlTag, CallsBeginWithAnInvoke) {
  const std::string calls = "<" + kMark + "tool_calls>\n";
  const std::string invoke = "<" + kMark + "invoke name=\"f\">";
  const TagMatch wrapped = match_calls(calls + invoke, TagStyle::kTolerant);
  EXPECT_EQ(wrapped.match, Match::kYes);
  EXPECT_EQ(wrapped.size, calls.size());
  const TagMatch alone = match_calls(invoke, TagStyle::kTolerant);
  EXPECT_EQ(alone.match, Match::kYes);
  EXPECT_EQ(alone.size, 0U);
  for (size_t size = 0; size < calls.size() + invoke.size(); ++size) {
    EXPECT_EQ(match_calls((calls + invoke).substr(0, size), TagStyle::kTolerant).match, Match::kMaybe) << size;
  }
  EXPECT_EQ(match_calls(calls + "text", TagStyle::kTolerant).match, Match::kNo);
  EXPECT_EQ(match_calls(calls + calls, TagStyle::kTolerant).match, Match::kNo);
  EXPECT_EQ(match_calls("</" + kMark + "tool_calls>", TagStyle::kTolerant).match, Match::kNo);
}

}  // namespace
}  // namespace fathom
