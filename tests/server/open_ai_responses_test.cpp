// The responses API's requests and answers, without a model: bodies in, jobs out; events in, text out.
#include "server/open_ai_responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/api_exchange.h"

namespace fathom::test {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyEvent::Kind;

class OpenAiResponsesTest : public ApiExchangeTest {
 protected:
  ChatExchange read(const std::string& body) { return read_open_ai_responses(model(), request(), Json::parse(body)); }
  ChatJob job(const std::string& body) { return read(body).job; }
  std::string error(const std::string& body) {
    return error_of([&] { static_cast<void>(read(body)); });
  }
};

constexpr const char* kTools = R"("tools": [
  {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true},
  {"type": "custom", "name": "apply_patch", "description": "p", "format": {"type": "grammar"}},
  {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send", "parameters": {}}]},
  {"type": "web_search"}])";

TEST_F(OpenAiResponsesTest, ReadsTheItemsOfAnAgent) {
  const ChatJob job = this->job(R"({"instructions": "Be brief.", "input": [
    {"role": "developer", "content": "Careful."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c1", "name": "send", "namespace": "mail", "arguments": "{\"b\": 2}"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "line"},
    {"type": "function_call_output", "call_id": "c1", "output": "done"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "ok"}]},
    {"type": "web_search_call", "id": "w"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    {"type": "message", "role": "user", "content": "b"},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "left over"}]}]})");
  EXPECT_EQ(job.messages_field, "input");
  ASSERT_EQ(job.messages.size(), 10U);
  EXPECT_EQ(job.messages[0].content, "Be brief.");
  EXPECT_EQ(job.messages[1].role, Role::kSystem);
  EXPECT_EQ(job.messages[2].content, "a\n\n[Unsupported input_image]");
  EXPECT_EQ(job.messages[3].reasoning, "hm");
  EXPECT_EQ(job.messages[4].tool_calls[0].name, "mail.send");
  EXPECT_EQ(job.messages[4].tool_calls[0].arguments, R"({"b": 2})");
  EXPECT_EQ(job.messages[5].tool_calls[0].arguments, R"({"input": "line"})");
  EXPECT_EQ(job.messages[6].tool_call_id, "c1");
  EXPECT_EQ(job.messages[7].content, "ok");
  EXPECT_EQ(job.messages[8].content, "Done.");
  EXPECT_EQ(job.messages[9].content, "b");
}

TEST_F(OpenAiResponsesTest, ReadsTextToolsAndSettings) {
  const ChatJob job = this->job(std::string(R"({"input": "Hello", "max_output_tokens": 7, "temperature": 0.5,
    "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "none"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},)") +
                                kTools + "}");
  EXPECT_EQ(job.messages.front().content, "Hello");
  EXPECT_EQ(job.max_tokens, 7);
  EXPECT_EQ(job.sampling.temperature, 0.5F);
  EXPECT_FALSE(job.parallel_tool_calls);
  EXPECT_EQ(job.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(job.thinking, Thinking::kOff);
  EXPECT_EQ(job.response_format.text, R"({"type": "object"})");
  ASSERT_EQ(job.tools.size(), 3U);
  EXPECT_EQ(job.tools[0].definition, R"({"name": "f", "description": "d", "parameters": {"type": "object"}})");
  EXPECT_THAT(job.tools[1].definition, testing::HasSubstr(R"("properties": {"input": {"type": "string"}})"));
  EXPECT_EQ(job.tools[2].name, "mail.send");
  EXPECT_EQ(this->job(R"({"input": "a", "tool_choice": {"type": "allowed_tools", "mode": "required"}})").tool_choice,
            ToolChoice::kRequired);
  EXPECT_EQ(this->job(R"({"input": "a", "text": {"format": {"type": "json_object"}}})").response_format.kind,
            ResponseFormat::Kind::kJsonObject);
}

TEST_F(OpenAiResponsesTest, NamesTheFieldAtFault) {
  EXPECT_THAT(error("{}"), testing::StartsWith("input: "));
  EXPECT_THAT(error(R"({"input": [{"role": "clown"}]})"), testing::StartsWith("input[0].role: "));
  EXPECT_THAT(error(R"({"input": [{"role": "user", "content": 3}]})"), testing::StartsWith("input[0].content: "));
  EXPECT_THAT(error(R"({"input": [{"type": "function_call", "name": "f"}]})"),
              testing::StartsWith("input[0].call_id: "));
  EXPECT_THAT(error(R"({"input": [{"type": "item_reference", "id": "x"}]})"), testing::StartsWith("input[0].type: "));
  EXPECT_THAT(error(R"({"input": "a", "previous_response_id": "r"})"),
              testing::StartsWith("previous_response_id: expected null"));
  EXPECT_THAT(error(R"({"input": "a", "conversation": "r"})"), testing::StartsWith("conversation: "));
  EXPECT_THAT(error(R"({"input": "a", "background": true})"), testing::StartsWith("background: "));
  EXPECT_THAT(error(R"({"input": "a", "tools": [{"type": "function"}]})"), testing::StartsWith("tools[0].name: "));
  EXPECT_THAT(error(R"({"input": "a", "tool_choice": "some"})"), testing::StartsWith("tool_choice: "));
  EXPECT_THAT(error(R"({"input": "a", "tool_choice": {"type": "some"}})"), testing::StartsWith("tool_choice.type: "));
  EXPECT_THAT(error(R"({"input": "a", "text": {"format": {"type": "xml"}}})"),
              testing::StartsWith("text.format.type: "));
  EXPECT_THAT(error(R"({"input": "a", "text": {"format": {"type": "json_schema"}}})"),
              testing::StartsWith("text.format.schema: "));
}

TEST_F(OpenAiResponsesTest, WritesAnAnswer) {
  const ChatReply reply{
      .answers = {{.reasoning = "hm",
                   .content = "See:",
                   .tool_calls = {{.id = "c1", .name = "mail.send", .arguments = "{}"},
                                  {.id = "c2", .name = "apply_patch", .arguments = R"({"input": "line"})"}},
                   .finish = ReplyFinish::kToolCalls}},
      .usage = {.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 7, .reasoning_tokens = 2}};
  const Json json =
      Json::parse(read(std::string(R"({"model": "m", "input": "a",)") + kTools + "}").format->reply(reply));
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["model"], "m");
  const Json& output = json["output"];
  ASSERT_EQ(output.size(), 4U);
  EXPECT_EQ(output[0]["summary"][0]["text"], "hm");
  EXPECT_EQ(output[1]["content"][0]["text"], "See:");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["namespace"], "mail");
  EXPECT_EQ(output[2]["name"], "send");
  EXPECT_EQ(output[2]["call_id"], "c1");
  EXPECT_EQ(output[3]["type"], "custom_tool_call");
  EXPECT_EQ(output[3]["input"], "line");
  EXPECT_EQ(json["usage"]["input_tokens"], 10);  // cached ones included
  EXPECT_EQ(json["usage"]["input_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(json["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
  EXPECT_EQ(json["usage"]["total_tokens"], 17);
}

TEST_F(OpenAiResponsesTest, StreamsItems) {
  const auto format = read(std::string(R"({"input": "a",)") + kTools + "}").format;
  const std::vector<SseEvent> events =
      stream(*format,
             {{.reply = {.kind = Kind::kReasoning, .text = "hm"}},
              {.reply = {.kind = Kind::kContent, .text = "a"}},
              {.reply = {.kind = Kind::kContent, .text = "b"}},
              {.reply = {.kind = Kind::kCallStart, .call = 0, .id = "c1", .name = "f"}},
              {.reply = {.kind = Kind::kArguments, .call = 0, .text = "{}"}},
              {.reply = {.kind = Kind::kCallEnd, .call = 0}},
              {.reply = {.kind = Kind::kFinish, .reason = ReplyFinish::kToolCalls}}},
             {.prompt_tokens = 3, .completion_tokens = 5});
  std::string shape;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].data["sequence_number"], i);
    EXPECT_EQ(events[i].data["type"], events[i].name);
    shape +=
        events[i].name + (events[i].data.contains("output_index") ? " " + events[i].data["output_index"].dump() : "");
    shape += "\n";
  }
  EXPECT_EQ(shape,
            "response.created\n"
            "response.in_progress\n"
            "response.output_item.added 0\n"
            "response.reasoning_summary_part.added 0\n"
            "response.reasoning_summary_text.delta 0\n"
            "response.reasoning_summary_text.done 0\n"
            "response.reasoning_summary_part.done 0\n"
            "response.output_item.done 0\n"
            "response.output_item.added 1\n"
            "response.content_part.added 1\n"
            "response.output_text.delta 1\n"
            "response.output_text.delta 1\n"
            "response.output_text.done 1\n"
            "response.content_part.done 1\n"
            "response.output_item.done 1\n"
            "response.output_item.added 2\n"
            "response.function_call_arguments.delta 2\n"
            "response.function_call_arguments.done 2\n"
            "response.output_item.done 2\n"
            "response.completed\n");
  EXPECT_EQ(events[14].data["item"]["content"][0]["text"], "ab");
  EXPECT_EQ(events[18].data["item"]["status"], "completed");
  EXPECT_EQ(events[18].data["item"]["arguments"], "{}");
  EXPECT_EQ(events.back().data["response"]["output"].size(), 3U);
  EXPECT_EQ(events.back().data["response"]["usage"]["output_tokens"], 5);
}

TEST_F(OpenAiResponsesTest, WhatIsCutOffIsIncomplete) {
  const auto format = read(R"({"input": "a"})").format;
  const auto events = stream(*format,
                             {{.reply = {.kind = Kind::kCallStart, .call = 0, .id = "c1", .name = "f"}},
                              {.reply = {.kind = Kind::kArguments, .call = 0, .text = "{\"a\""}},
                              {.reply = {.kind = Kind::kFinish, .reason = ReplyFinish::kLength}}},
                             {});
  EXPECT_EQ(events[events.size() - 2].data["item"]["status"], "incomplete");
  EXPECT_EQ(events.back().name, "response.incomplete");
  EXPECT_EQ(events.back().data["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(OpenAiResponsesTest, AFailureIsAnEvent) {
  const auto format = read(R"({"input": "a"})").format;
  const auto events = parse_sse(format->error({ApiErrorKind::kRateLimit, "too many"}));
  EXPECT_EQ(events[0].name, "response.failed");
  EXPECT_EQ(events[0].data["response"]["error"]["code"], "rate_limit_exceeded");
}

}  // namespace
}  // namespace fathom::test
