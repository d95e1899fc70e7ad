#include "server/replay_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chat/prompt.h"
#include "server/prompt_tokens.h"
#include "support/test_tokenizers.h"

namespace fathom::test {
namespace {

ChatMessage answer(const std::string& id, const std::string& arguments = R"({"a": 1, "b": 2})") {
  return {.role = Role::kAssistant,
          .content = "I look.",
          .reasoning = "Hm.",
          .tool_calls = {{.id = id, .name = "get", .arguments = arguments}}};
}

TEST(ReplayStore, FindsAnAnswerThatSaysTheSame) {
  ReplayStore store;
  store.remember(answer("call_1"), {.text = "sampled", .tokens = {1, 2}});
  ASSERT_NE(store.find(answer("call_1")), nullptr);
  EXPECT_EQ(store.find(answer("call_1"))->text, "sampled");
  EXPECT_NE(store.find(answer("call_1", R"({"b":2,"a":1})")), nullptr) << "written in another way";
  ChatMessage bare = answer("call_1");
  bare.content.clear();
  bare.reasoning.clear();
  EXPECT_NE(store.find(bare), nullptr) << "clients leave out what they do not need";
}

TEST(ReplayStore, DoesNotKnowWhatWasChanged) {
  ReplayStore store;
  store.remember(answer("call_1"), {.text = "sampled"});
  EXPECT_EQ(store.find(answer("call_2")), nullptr);
  EXPECT_EQ(store.find(answer("call_1", R"({"a": 1, "b": 3})")), nullptr);
  EXPECT_EQ(store.find(answer("call_1", "{")), nullptr);
  ChatMessage changed = answer("call_1");
  changed.content = "I do not look.";
  EXPECT_EQ(store.find(changed), nullptr);
  changed = answer("call_1");
  changed.tool_calls.push_back({.id = "call_2", .name = "get"});
  EXPECT_EQ(store.find(changed), nullptr);
  changed = answer("call_1");
  changed.role = Role::kUser;
  EXPECT_EQ(store.find(changed), nullptr);
}

TEST(ReplayStore, ForgetsWhatWasNotUsedForLongest) {
  ReplayStore store(16384);
  store.remember(answer("call_1"), {.text = std::string(6000, 'x')});
  store.remember(answer("call_2"), {.text = std::string(6000, 'x')});
  EXPECT_NE(store.find(answer("call_1")), nullptr);
  store.remember(answer("call_3"), {.text = std::string(6000, 'x')});
  EXPECT_EQ(store.find(answer("call_2")), nullptr);
  EXPECT_NE(store.find(answer("call_1")), nullptr);
  EXPECT_NE(store.find(answer("call_3")), nullptr);
}

TEST(PromptTokens, KeepTheTokensOfASampledReply) {
  const Tokenizer tokenizer{bundled_tokenizer_data()};
  // Other tokens than the text alone gives: one per byte.
  SampledReply sampled{.text = "Hm.</think>Hello", .reasoned = true};
  for (const char c : std::string("Hm.")) {
    sampled.tokens.push_back(*tokenizer.find(std::string(1, c)));
  }
  sampled.tokens.push_back(*tokenizer.find("</think>"));
  for (const char c : std::string("Hello")) {
    sampled.tokens.push_back(*tokenizer.find(std::string(1, c)));
  }
  std::vector<ChatMessage> messages = {{.role = Role::kUser, .content = "Hi"},
                                       {.role = Role::kAssistant, .content = "Other", .reasoning = "text"},
                                       {.role = Role::kUser, .content = "<think>Bye"}};
  const ChatOptions options{.thinking = Thinking::kLow, .drop_thinking = false};
  const std::vector<TokenId> plain = encode_prompt(tokenizer, render_chat(messages, options));
  messages[1].sampled = std::make_shared<const SampledReply>(sampled);
  const std::vector<TokenId> replayed = encode_prompt(tokenizer, render_chat(messages, options));
  EXPECT_NE(std::search(replayed.begin(), replayed.end(), sampled.tokens.begin(), sampled.tokens.end()),
            replayed.end());
  // All around it is the same.
  messages[1].sampled = nullptr;
  messages[1].content = "Hello";
  messages[1].reasoning = "Hm.";
  EXPECT_EQ(tokenizer.decode(replayed), tokenizer.decode(encode_prompt(tokenizer, render_chat(messages, options))));
  EXPECT_NE(plain, replayed);
  // Sampled after another mark than the prompt has now: the text of the message counts.
  sampled.reasoned = false;
  messages[1].sampled = std::make_shared<const SampledReply>(sampled);
  EXPECT_EQ(
      encode_prompt(tokenizer, render_chat(messages, options)),
      encode_prompt(
          tokenizer,
          render_chat({messages[0], {.role = Role::kAssistant, .content = "Hello", .reasoning = "Hm."}, messages[2]},
                      options)));
}

}  // namespace
}  // namespace fathom::test
