#include "chat/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/prompt.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

ChatMessage message(Role role, std::string text) { return {.role = role, .content = std::move(text)}; }

// "role:content" of every message.
std::vector<std::string> outline(const std::vector<ChatMessage>& messages) {
  static constexpr const char* kNames[] = {"system", "user", "assistant", "tool", "developer", "latest_reminder"};
  std::vector<std::string> lines;
  for (const ChatMessage& m : messages) {
    lines.push_back(std::string(kNames[static_cast<size_t>(m.role)]) + ":" + m.content);
  }
  return lines;
}

TEST(Conversation, JoinsLeadingInstructions) {
  const auto out = for_generation({message(Role::kSystem, "a"), message(Role::kDeveloper, ""),
                                   message(Role::kDeveloper, "b"), message(Role::kUser, "c")});
  EXPECT_THAT(outline(out), testing::ElementsAre("system:a\n\nb", "user:c"));
}

TEST(Conversation, KeepsToolsAndSchemaOfLeadingInstructions) {
  ChatMessage tools = message(Role::kDeveloper, "b");
  tools.tools = {{.name = "f", .definition = "{}"}};
  tools.response_schema = "true";
  const auto out = for_generation({message(Role::kSystem, "a"), tools, message(Role::kUser, "c")});
  ASSERT_EQ(out[0].tools.size(), 1U);
  EXPECT_EQ(out[0].response_schema, "true");
}

TEST(Conversation, LaterInstructionsStayInTheirPlace) {
  const std::vector<ChatMessage> first = {message(Role::kSystem, "a"), message(Role::kUser, "b"),
                                          message(Role::kDeveloper, "note")};
  EXPECT_THAT(outline(for_generation(first)), testing::ElementsAre("system:a", "user:b", "user:note"));

  std::vector<ChatMessage> second = first;
  second.push_back(message(Role::kAssistant, "c"));
  second.push_back(message(Role::kSystem, ""));
  second.push_back(message(Role::kSystem, "d"));
  const std::string before = render_chat(for_generation(first), {}).text;
  EXPECT_TRUE(render_chat(for_generation(second), {}).text.starts_with(before));
}

TEST(Conversation, MergesPiecesOfOneAnswer) {
  ChatMessage reasoning = message(Role::kAssistant, "");
  reasoning.reasoning = "r";
  ChatMessage call = message(Role::kAssistant, "");
  call.tool_calls = {{.id = "i", .name = "f", .arguments = "{}"}};
  ChatMessage other_call = call;
  other_call.tool_calls[0].name = "g";
  const auto out = for_generation({message(Role::kUser, "a"), reasoning, message(Role::kAssistant, "b"), call,
                                   other_call, message(Role::kTool, "d")});
  ASSERT_THAT(outline(out), testing::ElementsAre("user:a", "assistant:b", "tool:d"));
  EXPECT_EQ(out[1].reasoning, "r");
  ASSERT_EQ(out[1].tool_calls.size(), 2U);
  EXPECT_EQ(out[1].tool_calls[1].name, "g");
}

TEST(Conversation, AnOpenAnswerCanBeContinued) {
  ChatMessage open = message(Role::kAssistant, "b");
  open.open_ended = true;
  EXPECT_TRUE(for_generation({message(Role::kUser, "a"), open}).back().open_ended);
}

TEST(Conversation, RejectsWhatNeedsNoAnswer) {
  EXPECT_ERROR(static_cast<void>(for_generation({})), ErrorCode::kBadRequest, "got none");
  EXPECT_ERROR(static_cast<void>(for_generation({message(Role::kSystem, "a")})), ErrorCode::kBadRequest,
               "messages: expected at least one that is not the system's, got none");
  EXPECT_ERROR(static_cast<void>(for_generation({message(Role::kUser, "a"), message(Role::kAssistant, "b")})),
               ErrorCode::kBadRequest, "messages: the last one is a finished answer");
}

TEST(Conversation, ToolsGoToTheFirstInstruction) {
  std::vector<ChatMessage> with_system = {message(Role::kSystem, "a"), message(Role::kUser, "b")};
  with_system[0].tools = {{.name = "old", .definition = "{}"}};
  offer_tools(with_system, {{.name = "new", .definition = "{}"}});
  ASSERT_EQ(with_system[0].tools.size(), 1U);
  EXPECT_EQ(with_system[0].tools[0].name, "new");

  std::vector<ChatMessage> without = {message(Role::kUser, "b")};
  offer_tools(without, {{.name = "new", .definition = "{}"}});
  require_schema(without, "{}");
  EXPECT_THAT(outline(without), testing::ElementsAre("system:", "user:b"));
  EXPECT_EQ(without[0].response_schema, "{}");

  std::vector<ChatMessage> none = {message(Role::kUser, "b")};
  offer_tools(none, {});
  require_schema(none, "");
  EXPECT_EQ(none.size(), 1U);
}

TEST(Conversation, LeavesOutSystemTextsThatDifferInEveryRequest) {
  EXPECT_EQ(join_system_texts({"x-anthropic-billing-header: 1", "You are", "an agent"}), "You are\nan agent");
  EXPECT_EQ(join_system_texts({}), "");
}

}  // namespace
}  // namespace fathom
