#include "chat/reply_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "chat/prompt.h"
#include "support/reply_collector.h"
#include "support/strict_reply.h"

namespace fathom {
namespace {

using test::CollectedCall;
using test::CollectedReply;
using Start = ReplyOptions::Start;
using testing::ElementsAre;

// "[tag]" stands for "<DSML-mark tag>" and "[/tag]" for its end, "$" for the end-of-sentence literal.
std::string dsml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[') {
      out += "<";
    } else if (c == ']') {
      out += ">";
    } else if (c == '$') {
      out += literal::kEos;
    } else {
      out += c;
    }
    if (c == '[') {
      out += literal::kDsml;
    }
  }
  const std::string wrong = "<" + std::string(literal::kDsml) + "/";
  for (size_t at = out.find(wrong); at != std::string::npos; at = out.find(wrong)) {
    out.replace(at, wrong.size(), "</" + std::string(literal::kDsml));
  }
  return out;
}

ReplyOptions with_tools(Start start = Start::kContent) {
  const Tool f{.name = "f", .definition = R"({"parameters": {"properties": {"i": {"type": "integer"}}}})"};
  return {.start = start, .tools = ToolSchemas(std::vector<Tool>{f})};
}

// Also checks that cutting the text differently changes nothing.
CollectedReply parse(std::string_view text, const ReplyOptions& options = with_tools(),
                     ReplyEnd end = ReplyEnd::kStop) {
  const std::string expanded = dsml(text);
  const test::ParsedReply whole = test::parse_whole(expanded, options, end);
  for (const size_t size : {1, 2, 3, 7}) {
    const test::ParsedReply cut = test::parse_reply(expanded, options, end, [&](size_t) { return size; });
    EXPECT_EQ(cut.events, whole.events) << text << " in pieces of " << size;
    EXPECT_EQ(cut.damage, whole.damage) << text << " in pieces of " << size;
  }
  return test::collect(whole.events);
}

CollectedReply calls(std::string content, std::vector<CollectedCall> list) {
  return {.content = std::move(content), .calls = std::move(list), .reason = ReplyFinish::kToolCalls};
}

const std::string kCall =
    "[tool_calls]\n[invoke name=\"f\"]\n[parameter name=\"x\" string=\"true\"]1[/parameter]\n"
    "[/invoke]\n[/tool_calls]";
const CollectedCall kParsedCall{.name = "f", .arguments = R"({"x": "1"})"};

TEST(ReplyParser, SplitsReasoningAndContent) {
  EXPECT_EQ(parse("a < b\n\n</think>\n\nc\n\nd\n$", with_tools(Start::kReasoning)),
            (CollectedReply{.reasoning = "a < b", .content = "c\n\nd\n"}));
}

TEST(ReplyParser, DropsNewlinesAtTheBeginningUnlessContinued) {
  EXPECT_EQ(parse("\n\na\n</think>", with_tools(Start::kReasoning)).reasoning, "a");
  EXPECT_EQ(parse("\n\na").content, "a");
  EXPECT_EQ(parse("\n\n").content, "");
  EXPECT_EQ(parse("\n\na\n", with_tools(Start::kContinued)).content, "\n\na\n");
}

TEST(ReplyParser, SwallowsThinkMarksThatMakeNoSense) {
  EXPECT_EQ(parse("<think>\na<think>b</think>c", with_tools(Start::kReasoning)),
            (CollectedReply{.reasoning = "ab", .content = "c"}));
  EXPECT_EQ(parse("a</think>b<think>c").content, "abc");
  EXPECT_EQ(parse("the `<think>` and `</think>` marks").content, "the `<think>` and `</think>` marks");
}

TEST(ReplyParser, ReasonsUnasked) {
  EXPECT_EQ(parse("<think>a</think>b"), (CollectedReply{.reasoning = "a", .content = "b"}));
}

TEST(ReplyParser, EndsWithTheEndMark) {
  EXPECT_EQ(parse("a$b" + kCall), (CollectedReply{.content = "a"}));
  EXPECT_EQ(parse("a$", {}, ReplyEnd::kLength).reason, ReplyFinish::kStop);
  EXPECT_EQ(parse("a", {}, ReplyEnd::kLength).reason, ReplyFinish::kLength);
}

TEST(ReplyParser, StreamsTextAndArgumentsAtOnce) {
  ReplyParser parser(with_tools());
  EXPECT_THAT(parser.push("Hello w"), ElementsAre(ReplyEvent{.text = "Hello w"}));
  EXPECT_THAT(parser.push("orld <"), ElementsAre(ReplyEvent{.text = "orld "}));
  EXPECT_THAT(parser.push("b"), ElementsAre(ReplyEvent{.text = "<b"}));
  EXPECT_THAT(parser.push(dsml("\n\n[tool_calls]\n")), ElementsAre());
  EXPECT_EQ(parser.push(dsml("[invoke name=\"f\"]\n[parameter name=\"x\" string=\"true\"]a")).size(), 2U);
  EXPECT_THAT(parser.push("b\nc"),
              ElementsAre(ReplyEvent{.kind = ReplyEvent::Kind::kArguments, .call = 0, .text = "b\\nc"}));
  EXPECT_THAT(parser.push("\xe2\x82"), ElementsAre());
  EXPECT_THAT(parser.push("\xac"),
              ElementsAre(ReplyEvent{.kind = ReplyEvent::Kind::kArguments, .call = 0, .text = "\u20AC"}));
}

TEST(ReplyParser, TellsWhereItIs) {
  ReplyParser parser(with_tools(Start::kReasoning));
  EXPECT_TRUE(parser.in_reasoning());
  static_cast<void>(parser.push("a</think>"));
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_FALSE(parser.is_complete());
  static_cast<void>(parser.push(dsml(kCall)));
  EXPECT_TRUE(parser.is_complete());
  EXPECT_EQ(parser.damage(), 0);
}

TEST(ReplyParser, ReadsSeveralCalls) {
  EXPECT_EQ(parse("a\n\n[tool_calls]\n[invoke name=\"f\"]\n[parameter name=\"i\" string=\"true\"]3[/parameter]\n"
                  "[/invoke]\n[invoke name=\"g\"]\n\n[/invoke]\n[/tool_calls]$"),
            calls("a", {{.name = "f", .arguments = R"({"i": 3})"}, {.name = "g", .arguments = "{}"}}));
}

TEST(ReplyParser, GivesEveryCallAnId) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    const std::string id = random_call_id(7);
    EXPECT_TRUE(id.starts_with("call_07_"));
    EXPECT_EQ(id.size(), 32U);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 100U);
}

TEST(ReplyParser, CallsEndReasoning) {
  const CollectedReply expected{.reasoning = "a", .calls = {kParsedCall}, .reason = ReplyFinish::kToolCalls};
  EXPECT_EQ(parse("a\n\n" + kCall, with_tools(Start::kReasoning)), expected);
  EXPECT_EQ(parse("a" + kCall, with_tools(Start::kReasoning)), expected);
}

TEST(ReplyParser, ReasoningMayMentionMarkup) {
  const std::string thought =
      "Then [invoke name=\"f\"], in [tool_calls] or `[tool_calls][invoke name=\"f\"]`.\n```\n" + kCall + "\n```";
  EXPECT_EQ(parse(thought + "</think>b", with_tools(Start::kReasoning)),
            (CollectedReply{.reasoning = dsml(thought), .content = "b"}));
  EXPECT_EQ(parse(kCall + "</think>b", {.start = Start::kReasoning}),
            (CollectedReply{.reasoning = dsml(kCall), .content = "b"}));
}

TEST(ReplyParser, QuotedCallsAreContentWithoutTheMark) {
  const CollectedReply reply = parse("Write\n```\n[tool_calls]\n[invoke name=\"f\"]\n```\nor `[invoke name=\"f\"]`.");
  EXPECT_EQ(reply.content,
            "Write\n```\n<|DSML|tool_calls>\n<|DSML|invoke name=\"f\">\n```\nor `<|DSML|invoke "
            "name=\"f\">`.");
  EXPECT_TRUE(reply.calls.empty());
}

TEST(ReplyParser, LeavesCallsOutWhenNoToolsAreOffered) {
  EXPECT_EQ(parse("a\n\n" + kCall + "$", {}), (CollectedReply{.content = "a"}));
}

TEST(ReplyParser, SwallowsTagsThatBeginNoCall) {
  EXPECT_EQ(parse("a[tool_calls]b[/invoke]c[parameter name=\"x\" string=\"true\"]d").content, "abcd");
  EXPECT_EQ(parse("a [unknown] b").content, "a <|DSML|unknown> b");
}

TEST(ReplyParser, NeverLeaksHalfATag) {
  EXPECT_EQ(parse("a\n\n[tool_ca", with_tools(), ReplyEnd::kLength),
            (CollectedReply{.content = "a\n\n", .reason = ReplyFinish::kLength}));
  EXPECT_EQ(parse("a <", with_tools(), ReplyEnd::kLength).content, "a <");
  EXPECT_EQ(parse("a </thin", with_tools(), ReplyEnd::kLength).content, "a </thin");
}

TEST(ReplyParser, AcceptsVariantsOfTheMarkup) {
  const auto spelled = [](std::string tags, const std::string& from, const std::string& to) {
    for (size_t at = tags.find(from); at != std::string::npos; at = tags.find(from, at + to.size())) {
      tags.replace(at, from.size(), to);
    }
    return tags;
  };
  const std::string plain = "a\n\n" + dsml(kCall);
  const std::string mark(literal::kDsml);
  for (const std::string& variant :
       {spelled(plain, mark, "\uFF5C\uFF5CDSML\uFF5C\uFF5C"), spelled(plain, mark, "|DSML|"),
        spelled(plain, mark, "DSML\uFF5C"), spelled(plain, mark, mark + " "), spelled(plain, mark, ""),
        spelled(plain, "tool_calls", "function_calls"), spelled(plain, "tool_calls", " calls"),
        spelled(plain, "\"f\"", "\u201Cf\u201D"), spelled(plain, "\"true\"", "\"True\""),
        spelled(plain, " string=\"true\"", ""), spelled(plain, "\n<", "<")}) {
    EXPECT_EQ(parse(variant), calls("a", {kParsedCall})) << variant;
  }
}

TEST(ReplyParser, TagsWithoutTheMarkNeedAParagraphOfTheirOwn) {
  const std::string bare = "<tool_calls>\n<invoke name=\"f\">\n</invoke>\n</tool_calls>";
  EXPECT_EQ(parse("a\n\n" + bare).calls.size(), 1U);
  for (const std::string& text : {"a\n" + bare, "a " + bare, std::string("a\n\n<tool_calls>")}) {
    EXPECT_EQ(parse(text).content, text);
  }
  EXPECT_EQ(parse("a\n\n" + bare, {}).content, "a\n\n" + bare);
}

TEST(ReplyParser, TagsWithoutTheMarkAreTextInMarkedCalls) {
  EXPECT_EQ(parse("a\n\n[tool_calls]\n[invoke name=\"f\"]\n[parameter name=\"x\" string=\"true\"]</parameter></invoke>"
                  "[/parameter]\n[/invoke]\n[/tool_calls]"),
            calls("a", {{.name = "f", .arguments = R"({"x": "</parameter></invoke>"})"}}));
}

TEST(ReplyParser, OnlyExactMarkupCountsWhenNotTolerant) {
  ReplyOptions options = with_tools();
  options.tolerant = false;
  EXPECT_EQ(parse("a\n\n" + kCall, options), calls("a", {kParsedCall}));
  const std::string variant = "a\n\n<|DSML|tool_calls>\n<|DSML|invoke name=\"f\">";
  EXPECT_EQ(parse(variant, options).content, variant);
}

TEST(ReplyParser, ClosesWhatTheModelLeftOpen) {
  const std::string x = "[parameter name=\"x\" string=\"true\"]1";
  const std::string y = "[parameter name=\"y\" string=\"true\"]2";
  const CollectedCall both{.name = "f", .arguments = R"({"x": "1", "y": "2"})"};
  const std::string begin = "a\n\n[tool_calls]\n[invoke name=\"f\"]\n";
  EXPECT_EQ(parse(begin + x + "\n" + y + "[/parameter]\n[/invoke]\n[/tool_calls]"), calls("a", {both}));
  EXPECT_EQ(parse(begin + x + "[/parameter]" + y + "\n[/invoke]\n[/tool_calls]"), calls("a", {both}));
  EXPECT_EQ(parse(begin + x + "[/parameter]" + y + "[/parameter]\n[/tool_calls]"), calls("a", {both}));
  EXPECT_EQ(parse(begin + x + "[/parameter\n" + y + "[/parameter\n[/invoke\n[/tool_calls]"), calls("a", {both}));
  EXPECT_EQ(parse(begin + x + "\n[invoke name=\"g\"]\n[/invoke]\n[/tool_calls]"),
            calls("a", {kParsedCall, {.name = "g", .arguments = "{}"}}));
  EXPECT_EQ(parse("a\n\n[invoke name=\"f\"]\n" + x + "[/parameter]\n[/invoke]"), calls("a", {kParsedCall}));
}

TEST(ReplyParser, SkipsWhatStandsBetweenTags) {
  EXPECT_EQ(parse("a\n\n[tool_calls]\n[invoke name=\"f\"]\nLet me see: <b> "
                  "[parameter name=\"x\" string=\"true\"]1[/parameter],\n[/parameter][/invoke] and [odd] "
                  "[/invoke][/tool_calls]\nDone. [tool_calls]"),
            calls("a", {kParsedCall}));
}

TEST(ReplyParser, TakesJsonInsteadOfParameters) {
  EXPECT_EQ(parse("[tool_calls]\n[invoke name=\"f\"]\n{\"x\": \"<1>\"}\n[/invoke]\n[/tool_calls]"),
            calls("", {{.name = "f", .arguments = R"({"x": "<1>"})"}}));
}

TEST(ReplyParser, ValuesMayHoldMarkupOfOtherKinds) {
  const std::string value = "</think> <think> <b> [tool_calls] [odd] < / [/odd] \n\n";
  const CollectedReply reply = parse("\n\n[tool_calls]\n[invoke name=\"f\"]\n[parameter name=\"x\" string=\"true\"]" +
                                     value + "[/parameter]\n[/invoke]\n[/tool_calls]");
  ASSERT_EQ(reply.calls.size(), 1U);
  std::string escaped;
  append_json_escaped(escaped, dsml(value));
  EXPECT_EQ(reply.calls[0].arguments, "{\"x\": \"" + escaped + "\"}");
}

TEST(ReplyParser, ACallThatIsCutOffDoesNotEnd) {
  const std::string begin = "a\n\n[tool_calls]\n[invoke name=\"f\"]\n[/invoke]\n[invoke name=\"g\"]\n";
  for (const char* rest : {"", "[parameter name=\"x\" string=\"true\"]1", "[parameter name=\"x\" string=\"tr"}) {
    const CollectedReply cut = parse(begin + rest, with_tools(), ReplyEnd::kLength);
    EXPECT_EQ(cut.reason, ReplyFinish::kLength);
    ASSERT_EQ(cut.calls.size(), 2U);
    EXPECT_TRUE(cut.calls[0].is_complete);
    EXPECT_FALSE(cut.calls[1].is_complete);
    EXPECT_EQ(parse(begin + rest + "$").reason, ReplyFinish::kToolCalls);
  }
  EXPECT_EQ(parse("a\n\n[tool_calls]\n[invoke name=\"f\"]\n$").reason, ReplyFinish::kStop);
  EXPECT_EQ(parse("a\n\n" + kCall, with_tools(), ReplyEnd::kLength).reason, ReplyFinish::kToolCalls);
}

TEST(ReplyParser, IllFormedBytesBecomeReplacementCharacters) {
  EXPECT_EQ(parse("a\xff\xe2\x82").content, "a\uFFFD\uFFFD");
}

TEST(ReplyParser, CountsDamage) {
  EXPECT_EQ(test::parse_whole(dsml("a\n\n" + kCall + "$"), with_tools()).damage, 0);
  EXPECT_EQ(test::parse_whole(dsml("a [/invoke]"), with_tools()).damage, 1);
  EXPECT_EQ(test::parse_whole(dsml("[tool_calls][invoke name=\"f\"]xy[/invoke]"), with_tools()).damage, 2);
}

// What the renderer writes of an answer is what a model should write: the parser gives the answer back.
TEST(ReplyParser, ReadsWhatTheRendererWrites) {
  ChatMessage answer{.role = Role::kAssistant, .content = "Let me see.", .reasoning = "Hm.\n\nYes."};
  answer.tool_calls = {
      {.name = "f", .arguments = R"({"x": "a\n\"b\" <c>", "n": [1, 2.5, {"k": null}], "i": 3, "t": true})"},
      {.name = "now", .arguments = "{}"}};
  const std::string prompt = render_chat({{.content = "A"}}, {.thinking = Thinking::kLow}).text;
  const std::string all = render_chat({{.content = "A"}, answer}, {.thinking = Thinking::kLow}).text;
  ASSERT_TRUE(all.starts_with(prompt));
  const CollectedReply reply =
      test::collect(test::parse_whole(all.substr(prompt.size()), with_tools(Start::kReasoning)).events);
  EXPECT_EQ(reply.reasoning, answer.reasoning);
  EXPECT_EQ(reply.content, answer.content);
  ASSERT_EQ(reply.calls.size(), 2U);
  EXPECT_EQ(reply.calls[0].arguments, answer.tool_calls[0].arguments);
  EXPECT_EQ(reply.calls[1].arguments, "{}");
  EXPECT_EQ(reply, test::StrictReader(all.substr(prompt.size()), true).read());
}

}  // namespace
}  // namespace fathom
