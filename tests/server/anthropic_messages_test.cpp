// Anthropic's requests and answers, without a model: bodies in, jobs out; events in, text out.
#include "server/anthropic_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/api_exchange.h"

namespace fathom::test {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyEvent::Kind;

class AnthropicMessagesTest : public ApiExchangeTest {
 protected:
  ChatExchange read(const std::string& body) { return read_anthropic_messages(model(), request(), Json::parse(body)); }
  ChatJob job(const std::string& body) { return read(body).job; }
  std::string error(const std::string& body) {
    return error_of([&] { static_cast<void>(read(body)); });
  }
};

constexpr const char* kHello = R"("messages": [{"role": "user", "content": "Hello"}])";

std::string with(const std::string& members) { return "{" + std::string(kHello) + ", " + members + "}"; }

TEST_F(AnthropicMessagesTest, ReadsAConversationWithTools) {
  const ChatJob job = this->job(R"({
    "model": "m", "max_tokens": 9,
    "system": [{"type": "text", "text": "x-anthropic-billing: 1"}, {"type": "text", "text": "Be brief."}],
    "messages": [
      {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "image", "source": {}}]},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "z"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "get", "input": {"b": 1, "a": "x"}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sunny"}]},
        {"type": "text", "text": "And now?"}]},
      {"role": "system", "content": "Few tokens left."}],
    "tools": [{"name": "get", "description": "d", "input_schema": {"type": "object"}},
              {"type": "web_search_20250305", "name": "web_search"}]})");
  ASSERT_EQ(job.messages.size(), 7U);
  EXPECT_EQ(job.messages[0].role, Role::kSystem);
  EXPECT_EQ(job.messages[0].content, "Be brief.");
  EXPECT_EQ(job.messages[2].content, "[Unsupported image]");
  EXPECT_EQ(job.messages[3].reasoning, "hm");
  EXPECT_EQ(job.messages[3].content, "Let me see.");
  ASSERT_EQ(job.messages[3].tool_calls.size(), 1U);
  EXPECT_EQ(job.messages[3].tool_calls[0].arguments, R"({"b": 1, "a": "x"})");
  EXPECT_EQ(job.messages[4].role, Role::kTool);
  EXPECT_EQ(job.messages[4].tool_call_id, "t1");
  EXPECT_EQ(job.messages[4].content, "sunny");
  EXPECT_EQ(job.messages[5].content, "And now?");
  EXPECT_EQ(job.messages[6].role, Role::kSystem);
  ASSERT_EQ(job.tools.size(), 1U);
  EXPECT_EQ(job.tools[0].definition, R"({"name": "get", "description": "d", "parameters": {"type": "object"}})");
  EXPECT_EQ(job.max_tokens, 9);
}

TEST_F(AnthropicMessagesTest, AnAnswerAtTheEndIsContinued) {
  const ChatJob job =
      this->job(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_TRUE(job.messages.back().open_ended);
}

TEST_F(AnthropicMessagesTest, Thinking) {
  EXPECT_EQ(job(with(R"("max_tokens": 1)")).thinking, model().defaults.thinking);
  EXPECT_EQ(job(with(R"("thinking": {"type": "disabled"}, "output_config": {"effort": "max"})")).thinking,
            Thinking::kOff);
  EXPECT_EQ(
      job(with(R"("thinking": {"type": "enabled", "budget_tokens": 5}, "output_config": {"effort": "low"})")).thinking,
      Thinking::kLow);
  EXPECT_EQ(job(with(R"("output_config": {"effort": "max"})")).thinking, Thinking::kMax);
}

TEST_F(AnthropicMessagesTest, ToolChoiceAndFormat) {
  EXPECT_EQ(job(with(R"("tool_choice": {"type": "any"})")).tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(job(with(R"("tool_choice": {"type": "none"})")).tool_choice, ToolChoice::kNone);
  const ChatJob named = job(with(R"("tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true})"));
  EXPECT_EQ(named.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(named.named_tool, "f");
  EXPECT_FALSE(named.parallel_tool_calls);
  for (const char* where : {R"("output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}})",
                            R"("output_format": {"type": "json_schema", "schema": {"type": "object"}})"}) {
    const ChatJob formatted = job(with(where));
    EXPECT_EQ(formatted.response_format.kind, ResponseFormat::Kind::kJsonSchema);
    EXPECT_EQ(formatted.response_format.text, R"({"type": "object"})");
  }
}

TEST_F(AnthropicMessagesTest, NamesTheFieldAtFault) {
  EXPECT_THAT(error("{}"), testing::StartsWith("messages: expected an array"));
  EXPECT_THAT(error(R"({"messages": [{"role": "tool", "content": ""}]})"), testing::StartsWith("messages[0].role: "));
  EXPECT_THAT(error(R"({"messages": [{"role": "user"}]})"), testing::StartsWith("messages[0].content: "));
  EXPECT_THAT(error(R"({"messages": [{"role": "user", "content": [{}]}]})"),
              testing::StartsWith("messages[0].content[0].type: "));
  EXPECT_THAT(error(R"({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]})"),
              testing::StartsWith("messages[0].content[0].tool_use_id: "));
  EXPECT_THAT(error(R"({"messages": [{"role": "user", "content": "a"},
                        {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {}}]}]})"),
              testing::StartsWith("messages[1]: expected the results of its tool calls"));
  EXPECT_THAT(error(with(R"("system": 3)")), testing::StartsWith("system: "));
  EXPECT_THAT(error(with(R"("max_tokens": 0)")), testing::StartsWith("max_tokens: "));
  EXPECT_THAT(error(with(R"("tools": [{"name": "f"}])")), testing::StartsWith("tools[0].input_schema: "));
  EXPECT_THAT(error(with(R"("tool_choice": {"type": "some"})")), testing::StartsWith("tool_choice.type: "));
  EXPECT_THAT(error(with(R"("thinking": {"type": "some"})")), testing::StartsWith("thinking.type: "));
  EXPECT_THAT(error(with(R"("output_config": {"effort": "some"})")), testing::StartsWith("output_config.effort: "));
  EXPECT_THAT(error(with(R"("output_format": {"type": "json"})")), testing::StartsWith("output_format.type: "));
  EXPECT_THAT(error(with(R"("output_format": {"type": "json_schema"})")),
              testing::StartsWith("output_format.schema: "));
}

TEST_F(AnthropicMessagesTest, WritesAnAnswer) {
  const ChatReply reply{.answers = {{.reasoning = "hm",
                                     .content = "Let me see.",
                                     .tool_calls = {{.id = "c1", .name = "f", .arguments = R"({"a": 1})"}},
                                     .finish = ReplyFinish::kToolCalls}},
                        .usage = {.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 7}};
  const Json json = Json::parse(read(with(R"("model": "claude-x")")).format->reply(reply));
  EXPECT_EQ(json["model"], "claude-x");
  EXPECT_EQ(json["stop_reason"], "tool_use");
  EXPECT_EQ(json["content"][0]["thinking"], "hm");
  EXPECT_FALSE(json["content"][0]["signature"].get<std::string>().empty());
  EXPECT_EQ(json["content"][1]["text"], "Let me see.");
  EXPECT_EQ(json["content"][2], Json::parse(R"({"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}})"));
  EXPECT_EQ(json["usage"]["input_tokens"], 6);  // those that were not cached
  EXPECT_EQ(json["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(json["usage"]["output_tokens"], 7);
}

TEST_F(AnthropicMessagesTest, AnAnswerHasABlockThatIsNoThinking) {
  const ChatReply reply{.answers = {{.reasoning = "hm", .finish = ReplyFinish::kLength}}};
  const Json json = Json::parse(read(with(R"("model": "m")")).format->reply(reply));
  EXPECT_EQ(json["stop_reason"], "max_tokens");
  ASSERT_EQ(json["content"].size(), 2U);
  EXPECT_EQ(json["content"][1]["text"], "");
}

TEST_F(AnthropicMessagesTest, StreamsBlocks) {
  const auto format = read(with(R"("model": "m")")).format;
  const std::vector<SseEvent> events =
      stream(*format,
             {{.reply = {.kind = Kind::kReasoning, .text = "h"}},
              {.reply = {.kind = Kind::kReasoning, .text = "m"}},
              {.reply = {.kind = Kind::kContent, .text = "See:"}},
              {.reply = {.kind = Kind::kCallStart, .call = 0, .id = "c1", .name = "f"}},
              {.reply = {.kind = Kind::kArguments, .call = 0, .text = "{\"a\": 1}"}},
              {.reply = {.kind = Kind::kCallEnd, .call = 0}},
              {.reply = {.kind = Kind::kCallStart, .call = 1, .id = "c2", .name = "g"}},
              {.reply = {.kind = Kind::kArguments, .call = 1, .text = "{}"}},
              {.reply = {.kind = Kind::kCallEnd, .call = 1}},
              {.reply = {.kind = Kind::kFinish, .reason = ReplyFinish::kToolCalls}}},
             {.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 9});
  std::string shape;
  for (const SseEvent& event : events) {
    EXPECT_EQ(event.name, event.data["type"]);
    shape += event.name;
    if (event.data.contains("index")) {
      shape += " " + event.data["index"].dump();
    }
    if (event.data.contains("delta") && event.data["delta"].contains("type")) {
      shape += " " + event.data["delta"]["type"].get<std::string>();
    }
    shape += "\n";
  }
  EXPECT_EQ(shape,
            "message_start\n"
            "content_block_start 0\n"
            "content_block_delta 0 thinking_delta\n"
            "content_block_delta 0 thinking_delta\n"
            "content_block_delta 0 signature_delta\n"
            "content_block_stop 0\n"
            "content_block_start 1\n"
            "content_block_delta 1 text_delta\n"
            "content_block_stop 1\n"
            "content_block_start 2\n"
            "content_block_delta 2 input_json_delta\n"
            "content_block_stop 2\n"
            "content_block_start 3\n"
            "content_block_delta 3 input_json_delta\n"
            "content_block_stop 3\n"
            "message_delta\n"
            "message_stop\n");
  EXPECT_EQ(events[10].data["delta"]["partial_json"], "{\"a\": 1}");
  const Json& last = events[events.size() - 2].data;
  EXPECT_EQ(last["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(last["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(last["usage"]["output_tokens"], 9);
}

TEST_F(AnthropicMessagesTest, StreamsStopStringsPingsAndErrors) {
  auto format = read(with(R"("model": "m")")).format;
  EXPECT_EQ(parse_sse(format->keep_alive())[0].name, "ping");
  const auto events =
      stream(*format, {{.reply = {.kind = Kind::kFinish, .reason = ReplyFinish::kStop}, .stop_string = "END"}}, {});
  EXPECT_EQ(events[1].name, "content_block_start");  // there is always one
  EXPECT_EQ(events[3].data["delta"]["stop_reason"], "stop_sequence");
  EXPECT_EQ(events[3].data["delta"]["stop_sequence"], "END");
  const auto failed = parse_sse(format->error({ApiErrorKind::kOverloaded, "busy"}));
  EXPECT_EQ(failed[0].name, "error");
  EXPECT_EQ(failed[0].data["error"]["type"], "overloaded_error");
}

TEST_F(AnthropicMessagesTest, CountsTokens) {
  HttpRequest request = this->request();
  request.body = R"({"messages": [{"role": "user", "content": "Hello"}], "thinking": {"type": "disabled"}})";
  const Service service{.model = model()};
  const Json json = Json::parse(count_anthropic_tokens(service, request).body);
  EXPECT_EQ(json["input_tokens"],
            ChatSession::prompt_tokens(model(), job(with(R"("thinking": {"type": "disabled"})"))).size());
}

}  // namespace
}  // namespace fathom::test
