// Requests whose replies must have a form.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "grammar/gbnf.h"
#include "grammar/token_grammar.h"
#include "recorder.h"
#include "support/expect_error.h"
#include "toy_model.h"
#include "toy_requests.h"

namespace fathom {
namespace {

constexpr TokenId kEnd = 48;      // no text: ends replies
constexpr TokenId kTrigger = 47;  // no text

// Tokens 0 to 25 are the letters, 26 to 35 pairs of them, 36 to 45 the digits.
std::vector<std::string> toy_texts(size_t n_tokens = kToyVocab) {
  std::vector<std::string> texts(n_tokens);
  for (size_t i = 0; i < 26; ++i) {
    texts[i] = std::string(1, static_cast<char>('a' + i));
  }
  for (size_t i = 0; i < 10; ++i) {
    texts[26 + i] = texts[2 * i] + texts[2 * i + 1];
    texts[36 + i] = std::string(1, static_cast<char>('0' + i));
  }
  return texts;
}

GenerationConstraint constraint(const char* gbnf, size_t n_tokens = kToyVocab) {
  const std::unordered_map<std::string, TokenId> others = {{"<end>", kEnd}, {"<trigger>", kTrigger}};
  auto vocabulary = std::make_shared<const GrammarVocabulary>(toy_texts(n_tokens), others);
  return {.grammar = std::make_shared<const TokenGrammar>(parse_gbnf(gbnf), std::move(vocabulary))};
}

GenerationRequest constrained(const char* gbnf, int salt, int max_tokens) {
  GenerationRequest request = request_of(30, salt, max_tokens);
  request.sampling.temperature = 2.0F;
  request.stop_tokens = {kEnd};
  request.constraint = constraint(gbnf);
  return request;
}

std::string text_of(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) {
    text += toy_texts()[static_cast<size_t>(token)];
  }
  return text;
}

bool is_letters_then_digit(const std::string& text) {
  return text.size() >= 61 && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == text.size() - 1 &&
         text.back() >= '0' && text.back() <= '9';
}

TEST(ConstrainedRequest, HasItsFormWhateverElseRuns) {
  const char* gbnf = "root ::= [a-z]{60,} [0-9]";
  std::vector<std::vector<TokenId>> alone;
  for (int i = 0; i < 8; ++i) {
    const auto engine = toy_engine(toy_config());
    Recorder recorder;
    submit(*engine, constrained(gbnf, i, 100), recorder).wait();
    EXPECT_EQ(recorder.finish().reason, FinishReason::kStop);
    EXPECT_EQ(recorder.finish().stop_token, kEnd);
    EXPECT_TRUE(is_letters_then_digit(text_of(recorder.tokens))) << text_of(recorder.tokens);
    alone.push_back(recorder.tokens);
  }
  // All at once, with companions that have no constraint, and too few blocks: caches are taken away and made again.
  EngineConfig config = toy_config();
  config.runner.max_context = 200;
  config.runner.cache_bytes = 13 * kToyBlock * sizeof(TokenId);
  Gate submitted;
  const auto engine = toy_engine(config, [&](const StepBatch&) { submitted.wait(); });
  std::deque<Recorder> recorders(12);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 12; ++i) {
    handles.push_back(
        submit(*engine, i < 8 ? constrained(gbnf, i, 100) : request_of(40, i, 60), recorders[static_cast<size_t>(i)]));
  }
  submitted.open();
  for (const RequestHandle& handle : handles) {
    handle.wait();
  }
  EXPECT_GT(engine->stats().preemptions, 0U);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(recorders[i].tokens, alone[i]);
  }
  for (int i = 8; i < 12; ++i) {
    expect_generated(recorders[static_cast<size_t>(i)], request_of(40, i, 60));
  }
}

TEST(ConstrainedRequest, LogprobsAreTheModels) {
  const auto engine = toy_engine(toy_config());
  GenerationRequest request = constrained("root ::= [a-z]{9,} [0-9]", 3, 50);
  request.logprobs = 2;
  Recorder recorder;
  submit(*engine, request, recorder).wait();
  std::vector<TokenId> sequence = request.prompt;
  for (const TokenEvent& event : recorder.events) {
    const std::vector<float> logits = toy_logits(sequence);
    const Logprobs expected = compute_logprobs(logits, event.token, 2);
    ASSERT_TRUE(event.logprobs.has_value());
    EXPECT_EQ(event.logprobs->chosen, expected.chosen);
    EXPECT_EQ(event.logprobs->top[0].token, expected.top[0].token);
    sequence.push_back(event.token);
  }
}

TEST(ConstrainedRequest, BeginsAfterItsTrigger) {
  const auto engine = toy_engine(toy_config());
  GenerationRequest request = constrained("root ::= [0-9]{5}", 4, 300);
  request.constraint->trigger = {.token = kTrigger, .required = true};
  Recorder recorder;
  submit(*engine, request, recorder).wait();
  ASSERT_EQ(recorder.finish().reason, FinishReason::kStop);
  ASSERT_GE(recorder.tokens.size(), 6U);
  EXPECT_EQ(recorder.tokens[recorder.tokens.size() - 6], kTrigger);
  const std::string after = text_of({recorder.tokens.end() - 5, recorder.tokens.end()});
  EXPECT_EQ(after.find_first_not_of("0123456789"), std::string::npos) << after;
}

TEST(ConstrainedRequest, EndsByItselfWithoutAStopToken) {
  const auto engine = toy_engine(toy_config());
  GenerationRequest request = constrained("root ::= \"ab\" [0-9]", 5, 50);
  request.stop_tokens.clear();
  Recorder recorder;
  submit(*engine, request, recorder).wait();
  EXPECT_EQ(recorder.finish().reason, FinishReason::kStop);
  EXPECT_FALSE(recorder.finish().stop_token.has_value());
  EXPECT_EQ(text_of(recorder.tokens).substr(0, 2), "ab");
  EXPECT_EQ(text_of(recorder.tokens).size(), 3U);
}

TEST(ConstrainedRequest, TextThatTheVocabularyCannotWriteEndsWithAnError) {
  const auto engine = toy_engine(toy_config());
  Recorder recorder;
  submit(*engine, constrained("root ::= \"ab!\"", 6, 50), recorder).wait();
  EXPECT_EQ(text_of(recorder.tokens), "ab");
  ASSERT_EQ(recorder.finish().reason, FinishReason::kError);
  EXPECT_NE(std::string(recorder.finish().error->what()).find("none of the 50 tokens is allowed"), std::string::npos);
}

TEST(ConstrainedRequest, SaysWhatDoesNotFitTheModel) {
  const auto engine = toy_engine(toy_config());
  GenerationRequest request = request_of(4, 1, 5);
  request.constraint = constraint("root ::= \"a\"", 60);
  EXPECT_ERROR(static_cast<void>(engine->submit(request, {})), ErrorCode::kBadRequest,
               "constraint: made for a vocabulary of 60 tokens, expected 50");
  request.constraint = constraint("root ::= \"a\"");
  request.constraint->trigger = {.token = 50};
  EXPECT_ERROR(static_cast<void>(engine->submit(request, {})), ErrorCode::kBadRequest,
               "constraint.trigger.token[0]: token 50, expected an id from 0 to 49");
  request.constraint->trigger = {.token = 1, .forbidden_before = {-1}};
  EXPECT_ERROR(static_cast<void>(engine->submit(request, {})), ErrorCode::kBadRequest,
               "constraint.trigger.forbidden_before[0]: token -1, expected an id from 0 to 49");
}

}  // namespace
}  // namespace fathom
