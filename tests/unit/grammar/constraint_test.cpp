#include "grammar/constraint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "grammar/gbnf.h"
#include "random_walk.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

class ConstraintTest : public testing::Test {
 protected:
  static const Tokenizer& tokenizer() {
    static const Tokenizer made(test::bundled_tokenizer_data());
    return made;
  }
  static GenerationConstraint constraint(const char* gbnf) {
    static const auto vocabulary = std::make_shared<const GrammarVocabulary>(tokenizer());
    return {.grammar = std::make_shared<const TokenGrammar>(parse_gbnf(gbnf), vocabulary)};
  }
  static void say(ConstraintState& state, std::string_view text) {
    for (const TokenId token : tokenizer().encode(text)) {
      state.accept(token);
    }
  }
  static bool allows(ConstraintState& state, TokenId token) {
    const auto mask = state.allowed();
    return mask.empty() || test::may({mask.begin(), mask.end()}, token);
  }
  static bool allows(ConstraintState& state, std::string_view text) { return allows(state, *tokenizer().find(text)); }

  const TokenId eos_ = *tokenizer().eos();
  const std::vector<TokenId> stop_ = {eos_};
};

TEST_F(ConstraintTest, ReplyEndsWhenTheTextIsComplete) {
  ConstraintState state(constraint("root ::= \"a\" \"b\"?"), stop_);
  EXPECT_TRUE(allows(state, "a"));
  EXPECT_FALSE(allows(state, "b"));
  EXPECT_FALSE(allows(state, eos_));
  say(state, "a");
  EXPECT_TRUE(allows(state, "b"));
  EXPECT_TRUE(allows(state, eos_));
  EXPECT_FALSE(state.finished());
  say(state, "b");
  EXPECT_TRUE(state.finished());
  EXPECT_TRUE(allows(state, eos_));
  EXPECT_FALSE(allows(state, "a"));
}

TEST_F(ConstraintTest, ReplyMayEndEarlyIfAsked) {
  GenerationConstraint early = constraint("root ::= \"a\"");
  early.may_end_early = true;
  ConstraintState state(early, stop_);
  EXPECT_TRUE(allows(state, eos_));
}

TEST_F(ConstraintTest, BeginsAfterItsTrigger) {
  GenerationConstraint late = constraint("root ::= \"a\"");
  const ChatTokens chat = tokenizer().require_chat_tokens();
  late.trigger = {.token = chat.end_think, .required = true, .forbidden_before = {chat.dsml}};
  ConstraintState state(late, stop_);
  say(state, "some thoughts");
  EXPECT_TRUE(allows(state, "b"));
  EXPECT_TRUE(allows(state, chat.end_think));
  EXPECT_FALSE(allows(state, chat.dsml));
  EXPECT_FALSE(allows(state, eos_));
  state.accept(chat.end_think);
  EXPECT_FALSE(allows(state, "b"));
  EXPECT_TRUE(allows(state, "a"));

  late.trigger->required = false;
  late.trigger->forbidden_before.clear();
  ConstraintState open(late, stop_);
  EXPECT_TRUE(open.allowed().empty());
  EXPECT_FALSE(open.finished());
}

TEST_F(ConstraintTest, TriggerMayHaveToOpenALine) {
  GenerationConstraint calls = constraint("root ::= \"a\"");
  const ChatTokens chat = tokenizer().require_chat_tokens();
  calls.trigger = {.token = chat.dsml, .opens_line = true};
  const auto triggers_after = [&](std::string_view text) {
    ConstraintState state(calls, stop_);
    say(state, text);
    state.accept(chat.dsml);
    return !state.allowed().empty();
  };
  EXPECT_TRUE(triggers_after("<"));
  EXPECT_TRUE(triggers_after("Let me see.\n\n<"));
  EXPECT_TRUE(triggers_after("thoughts</think><"));
  EXPECT_FALSE(triggers_after("the tag <"));
  EXPECT_FALSE(triggers_after("\n</"));
  EXPECT_FALSE(triggers_after("`"));
  EXPECT_FALSE(triggers_after(""));
}

}  // namespace
}  // namespace fathom
