#include "engine/model_runner.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"
#include "toy_model.h"

namespace fathom {
namespace {

RunnerConfig config_of(int max_rows, int max_logits = 0) {
  RunnerConfig config;
  config.backend.max_rows = max_rows;
  config.max_logits = max_logits;
  config.max_context = 100;
  config.max_sequences = 3;
  return config;
}

std::vector<float> row_of(HostMat<const float> logits, int row) {
  return {logits.row(row).begin(), logits.row(row).end()};
}

TEST(ModelRunner, GivesTheLogitsAskedForInTheOrderOfTheInputs) {
  const auto runner = toy_runner(config_of(32));
  SequenceCache a = runner->make_sequence();
  SequenceCache b = runner->make_sequence();
  SequenceCache c = runner->make_sequence();
  const std::vector<TokenId> x = toy_prompt(7, 1);
  const std::vector<TokenId> y = toy_prompt(5, 2);
  const std::vector<TokenId> z = toy_prompt(9, 3);
  const std::vector<StepInput> inputs{{&a, x, 1}, {&b, y, 0}, {&c, z, 2}};
  const HostMat<const float> logits = runner->run(inputs);
  ASSERT_EQ(logits.rows(), 3);
  EXPECT_EQ(row_of(logits, 0), toy_logits(x));
  EXPECT_EQ(row_of(logits, 1), toy_logits(std::span(z).first(8)));
  EXPECT_EQ(row_of(logits, 2), toy_logits(z));
  EXPECT_EQ(a.position(), 7);
  EXPECT_EQ(b.position(), 5);
  EXPECT_EQ(c.position(), 9);
}

TEST(ModelRunner, FeedsInChunksOfAnySize) {
  const auto runner = toy_runner(config_of(16, 6));
  const std::vector<TokenId> tokens = toy_prompt(50);
  for (const int chunk : {1, 4, 5, 1000}) {
    SequenceCache sequence = runner->make_sequence();
    int next = 0;
    runner->feed(sequence, tokens, chunk, [&](int position, HostMat<const float> logits) {
      ASSERT_EQ(position, next);
      ASSERT_LE(logits.rows(), std::min(chunk, 6));
      for (int row = 0; row < logits.rows(); ++row) {
        ++next;
        ASSERT_EQ(row_of(logits, row), toy_logits(std::span(tokens).first(static_cast<size_t>(next))));
      }
    });
    EXPECT_EQ(next, 50);
  }
}

TEST(ModelRunner, FeedWithoutLogitsUsesWholeSteps) {
  int n_steps = 0;
  const auto runner = toy_runner(config_of(16, 2), [&](const StepBatch& batch) {
    EXPECT_EQ(batch.n_logits(), 0);
    ++n_steps;
  });
  SequenceCache sequence = runner->make_sequence();
  runner->feed(sequence, toy_prompt(50), 1000);
  EXPECT_EQ(n_steps, 4);
  EXPECT_EQ(sequence.position(), 50);
}

TEST(ModelRunner, WhatIsWrongBeforeAStepLeavesEverythingAsItWas) {
  const auto runner = toy_runner(config_of(8, 2));
  SequenceCache a = runner->make_sequence();
  SequenceCache b = runner->make_sequence();
  const std::vector<TokenId> good = toy_prompt(3);
  const std::vector<TokenId> long_one = toy_prompt(6);
  const auto run = [&](std::vector<StepInput> inputs) { (void)runner->run(inputs); };
  const std::vector<TokenId> bad{1, 50};
  const std::vector<TokenId> negative{-1};
  EXPECT_ERROR(run({{&a, good, 1}, {&b, bad, 1}}), ErrorCode::kBadRequest, "token 50, expected an id from 0 to 49");
  EXPECT_ERROR(run({{&a, negative, 1}}), ErrorCode::kBadRequest, "token -1, expected an id from 0 to 49");
  EXPECT_ERROR(run({{&a, good, 1}, {&b, long_one, 1}}), ErrorCode::kBadRequest, "rows of a step: 9, expected 0 to 8");
  EXPECT_ERROR(run({{&a, good, 3}}), ErrorCode::kBadRequest, "logits of a step: 3, expected 0 to 2");
  EXPECT_ERROR(run({{&a, good, 1}, {&b, {}, 0}}), ErrorCode::kEmptyStep, "step of 0 rows, expected at least 1");
  EXPECT_ERROR(runner->feed(a, good, 0), ErrorCode::kBadRequest, "chunk: 0, expected 1 to");
  EXPECT_EQ(a.position(), 0);
  EXPECT_EQ(runner->pool().blocks_in_use(), 0);
  run({{&a, good, 1}, {&b, good, 1}});
  EXPECT_EQ(a.position(), 3);
}

TEST(ModelRunner, FailureInAStepPoisonsItsSequences) {
  bool fail = false;
  const auto runner = toy_runner(config_of(8), [&](const StepBatch&) {
    if (fail) {
      throw Error(ErrorCode::kDevice, "toy: injected");
    }
  });
  SequenceCache member = runner->make_sequence();
  SequenceCache bystander = runner->make_sequence();
  const std::vector<TokenId> tokens = toy_prompt(4);
  runner->feed(member, tokens, 8);
  runner->feed(bystander, tokens, 8);
  fail = true;
  EXPECT_ERROR(runner->feed(member, tokens, 8), ErrorCode::kDevice, "toy: injected");
  fail = false;
  EXPECT_TRUE(member.poisoned());
  EXPECT_ERROR(runner->feed(member, tokens, 8), ErrorCode::kPoisoned, "a step of this sequence failed");
  runner->feed(bystander, tokens, 8);
  EXPECT_EQ(bystander.position(), 8);
}

TEST(ModelRunner, ContextIsTheModelsUnlessLessIsAskedFor) {
  RunnerConfig config = config_of(8);
  EXPECT_EQ(toy_runner(config)->max_context(), 100);
  config.max_context = 0;
  EXPECT_EQ(toy_runner(config)->max_context(), 1000);
  // 20 blocks of 16 positions.
  config.cache_bytes = 20 * kToyBlock * sizeof(TokenId) + 1;
  const auto runner = toy_runner(config);
  EXPECT_EQ(runner->max_context(), 320);
  EXPECT_EQ(runner->pool().limits().max_blocks, 20);
}

TEST(ModelRunner, RejectsLimitsThatContradict) {
  const auto open_spoiled = [](auto spoil) {
    RunnerConfig config = config_of(8);
    spoil(config);
    (void)toy_runner(config);
  };
  using C = RunnerConfig;
  EXPECT_ERROR(open_spoiled([](C& c) { c.backend.max_rows = 0; }), ErrorCode::kBadRequest,
               "max_rows: 0, expected 1 to 1048576");
  EXPECT_ERROR(open_spoiled([](C& c) { c.max_logits = 9; }), ErrorCode::kBadRequest, "max_logits: 9, expected 0 to 8");
  EXPECT_ERROR(open_spoiled([](C& c) { c.max_sequences = 0; }), ErrorCode::kBadRequest,
               "max_sequences: 0, expected 1 to 1048576");
  EXPECT_ERROR(open_spoiled([](C& c) { c.max_snapshots = -1; }), ErrorCode::kBadRequest,
               "max_snapshots: -1, expected 0 to 1048576");
  EXPECT_ERROR(open_spoiled([](C& c) { c.max_context = -1; }), ErrorCode::kBadRequest,
               "max_context: -1, expected 0 to");
  EXPECT_ERROR(open_spoiled([](C& c) { c.max_context = 1001; }), ErrorCode::kContextBound, "1001");
  EXPECT_ERROR(open_spoiled([](C& c) { c.cache_bytes = 6 * kToyBlock * sizeof(TokenId); }), ErrorCode::kBadRequest,
               "cache_bytes: 384 hold 96 positions, expected at least 448 bytes for one sequence of 100");
  EXPECT_ERROR(open_spoiled([](C& c) {
                 c.max_context = 0;
                 c.cache_bytes = 10;
               }),
               ErrorCode::kBadRequest,
               "cache_bytes: 10 hold 0 positions, expected at least 64 bytes for one sequence of 1");
}

}  // namespace
}  // namespace fathom
