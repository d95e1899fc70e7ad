#include "chat/message_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/ordered_json.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

std::vector<ChatMessage> messages(std::string_view json) {
  return read_messages(parse_ordered_json(json, "test"), "messages");
}

std::vector<Tool> tools(std::string_view json) { return read_tools(parse_ordered_json(json, "test"), "tools"); }

TEST(MessageJson, ReadsEveryMember) {
  const auto read = messages(R"([{"role": "assistant", "content": "c", "reasoning_content": "r", "wo_eos": true,
      "task": "title", "name": "ignored", "tool_calls": [{"id": "i", "function": {"name": "f", "arguments": "{ }"}}]},
      {"role": "tool", "tool_call_id": "i", "content": null}])");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].role, Role::kAssistant);
  EXPECT_EQ(read[0].content, "c");
  EXPECT_EQ(read[0].reasoning, "r");
  EXPECT_TRUE(read[0].open_ended);
  EXPECT_EQ(read[0].task, Task::kTitle);
  ASSERT_EQ(read[0].tool_calls.size(), 1U);
  EXPECT_EQ(read[0].tool_calls[0].id, "i");
  EXPECT_EQ(read[0].tool_calls[0].name, "f");
  EXPECT_EQ(read[0].tool_calls[0].arguments, "{ }");
  EXPECT_EQ(read[1].role, Role::kTool);
  EXPECT_EQ(read[1].tool_call_id, "i");
  EXPECT_EQ(read[1].content, "");
}

TEST(MessageJson, ReadsToolsOfEveryApi) {
  const auto read = tools(R"([{"type": "function", "function": {"strict": false, "name": "a"}},
      {"type": "function", "name": "b", "parameters": {}, "strict": true},
      {"input_schema": {"type": "object"}, "name": "c", "description": "d", "cache_control": {}}])");
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].definition, R"({"strict": false, "name": "a"})");
  EXPECT_EQ(read[1].name, "b");
  EXPECT_EQ(read[1].definition, R"({"name": "b", "parameters": {}, "strict": true})");
  EXPECT_EQ(read[2].definition, R"({"name": "c", "description": "d", "parameters": {"type": "object"}})");
}

TEST(MessageJson, SaysWhichMemberIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({})", R"(messages: expected an array, got {})"},
      {R"([1])", "messages[0]: expected an object, got 1"},
      {R"([{}])", "messages[0].role: expected a string, got nothing"},
      {R"([{"role": "bot"}])",
       R"(messages[0].role: expected one of system, user, assistant, tool, developer, latest_reminder, got "bot")"},
      {R"([{"role": "user", "content": 1}])", "messages[0].content: expected a string or an array of parts, got 1"},
      {R"([{"role": "user", "content": ["x"]}])", R"(messages[0].content[0]: expected an object, got "x")"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 1}]}])",
       "messages[0].content[0].text: expected a string, got 1"},
      {R"([{"role": "user", "task": "sing"}])", "messages[0].task: expected one of action, query"},
      {R"([{"role": "assistant", "prefix": 1}])", "messages[0].prefix: expected true or false, got 1"},
      {R"([{"role": "assistant", "tool_calls": {}}])", "messages[0].tool_calls: expected an array, got {}"},
      {R"([{"role": "assistant", "tool_calls": [{}]}])",
       "messages[0].tool_calls[0].function: expected an object, got nothing"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])",
       "messages[0].tool_calls[0].function.name: expected a string, got nothing"},
      {R"([{"role": "system", "tools": [{"function": 1}]}])",
       "messages[0].tools[0].function: expected an object, got 1"},
      {R"([{"role": "system", "tools": [{"input_schema": {}}]}])",
       "messages[0].tools[0].name: expected a string, got nothing"},
  };
  for (const auto& [json, message] : wrong) {
    EXPECT_ERROR(static_cast<void>(messages(json)), ErrorCode::kBadRequest, message);
  }
}

}  // namespace
}  // namespace fathom
