// Completions with the result of the strict rules; and what the streaming parser makes of those that have none.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "chat/reply_parser.h"
#include "support/read_file.h"
#include "support/reply_collector.h"
#include "support/strict_reply.h"

namespace fathom {
namespace {

using Json = nlohmann::json;
using test::CollectedCall;
using test::CollectedReply;

std::vector<Json> parse_cases() {
  return Json::parse(test::read_file(FATHOM_TEST_DATA_DIR "/encoding/parse_cases.json")).get<std::vector<Json>>();
}

ReplyOptions options_of(const Json& test_case) {
  const bool thinking = test_case.at("thinking").get<bool>();
  return {.start = thinking ? ReplyOptions::Start::kReasoning : ReplyOptions::Start::kContent,
          .tools = ToolSchemas(std::vector<Tool>{{.name = "f", .definition = "{}"}})};
}

CollectedReply reply_of(const Json& strict) {
  CollectedReply reply{.reasoning = strict.at("reasoning_content").get<std::string>(),
                       .content = strict.at("content").get<std::string>()};
  for (const Json& call : strict.at("tool_calls")) {
    reply.calls.push_back({.name = call.at("name"), .arguments = call.at("arguments")});
  }
  reply.reason = reply.calls.empty() ? ReplyFinish::kStop : ReplyFinish::kToolCalls;
  return reply;
}

CollectedReply call_f(std::string reasoning, std::string content, std::string arguments) {
  return {.reasoning = std::move(reasoning),
          .content = std::move(content),
          .calls = {{.name = "f", .arguments = std::move(arguments)}},
          .reason = ReplyFinish::kToolCalls};
}

// Where the strict rules reject, or give arguments that are not JSON.
const std::map<std::string, CollectedReply>& tolerant_results() {
  static const std::map<std::string, CollectedReply> results = {
      {"missing_eos", {.content = "Hello"}},
      {"missing_think_end", {.reasoning = "just reasoning"}},
      {"call_inside_reasoning", call_f("I will call", "", R"({"x": "1"})")},
      {"text_after_block", call_f("", "a", R"({"x": "1"})")},
      {"duplicate_param", call_f("", "", R"({"x": "1"})")},
      {"no_leading_newlines", call_f("", "", R"({"x": "1"})")},
      {"unterminated_block",
       {.content = "a", .calls = {{.name = "f", .arguments = R"({"x": "abc)", .is_complete = false}}}},
      {"missing_outer_end", call_f("", "a", R"({"x": "1"})")},
      {"extra_think_end_in_content", {.reasoning = "r", .content = "ab"}},
      {"nonstring_bad_json", call_f("", "", R"({"x": "{oops"})")},
      {"wrong_case_flag", call_f("", "", R"({"x": "1"})")},
  };
  return results;
}

TEST(ParseCases, StrictRulesGiveTheirResults) {
  const std::vector<Json> cases = parse_cases();
  ASSERT_EQ(cases.size(), 20U);
  for (const Json& c : cases) {
    SCOPED_TRACE(c.at("name"));
    const std::string text = c.at("completion").get<std::string>();
    try {
      const CollectedReply reply = test::StrictReader(text, c.at("thinking").get<bool>()).read();
      ASSERT_TRUE(c.at("strict").contains("ok"));
      EXPECT_EQ(reply, reply_of(c.at("strict").at("ok")));
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), c.at("strict").value("error", "no error"));
    }
  }
}

TEST(ParseCases, TheParserGivesTheStrictOrTheTolerantResult) {
  size_t n_tolerant = 0;
  for (const Json& c : parse_cases()) {
    SCOPED_TRACE(c.at("name"));
    const auto parsed = test::parse_whole(c.at("completion").get<std::string>(), options_of(c));
    const auto tolerant = tolerant_results().find(c.at("name").get<std::string>());
    const bool is_strict = tolerant == tolerant_results().end();
    EXPECT_EQ(test::collect(parsed.events), is_strict ? reply_of(c.at("strict").at("ok")) : tolerant->second);
    n_tolerant += is_strict ? 0 : 1;
  }
  EXPECT_EQ(n_tolerant, tolerant_results().size());
}

TEST(ParseCases, HowTheTextIsCutDoesNotMatter) {
  for (const Json& c : parse_cases()) {
    SCOPED_TRACE(c.at("name"));
    const std::string text = c.at("completion").get<std::string>();
    const ReplyOptions options = options_of(c);
    const std::vector<ReplyEvent> whole = test::parse_whole(text, options).events;
    EXPECT_EQ(test::parse_reply(text, options, ReplyEnd::kStop, [](size_t) { return 1; }).events, whole);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(test::parse_reply(text, options, ReplyEnd::kStop, [&](size_t i) { return i == 0 ? cut : 0; }).events,
                whole)
          << "cut at " << cut;
    }
  }
}

TEST(ParseCases, NothingLeaksWhereverTheReplyEnds) {
  for (const Json& c : parse_cases()) {
    SCOPED_TRACE(c.at("name"));
    const std::string text = c.at("completion").get<std::string>();
    for (size_t size = 0; size < text.size(); ++size) {
      const auto parsed = test::parse_whole(text.substr(0, size), options_of(c), ReplyEnd::kLength);
      const CollectedReply reply = test::collect(parsed.events);
      EXPECT_EQ(reply.content.find("DSML"), std::string::npos) << size;
      EXPECT_EQ(reply.content.find("\uFF5C"), std::string::npos) << size;
    }
  }
}

}  // namespace
}  // namespace fathom
