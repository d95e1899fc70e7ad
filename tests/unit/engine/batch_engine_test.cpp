// The engine over the toy model: what requests see of each other, which is nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "recorder.h"
#include "toy_model.h"
#include "toy_requests.h"

namespace fathom {
namespace {

// Requests of all lengths, submitted before `submitted` lets the engine's first step begin.
void expect_all_generated(Engine& engine, int n_requests, Gate& submitted) {
  std::deque<Recorder> recorders;
  std::vector<GenerationRequest> requests;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < n_requests; ++i) {
    requests.push_back(request_of(1 + (i * 37) % 130, i, 1 + (i * 11) % 60));
    handles.push_back(submit(engine, requests.back(), recorders.emplace_back()));
  }
  submitted.open();
  for (int i = 0; i < n_requests; ++i) {
    handles[static_cast<size_t>(i)].wait();
    SCOPED_TRACE("request " + std::to_string(i));
    expect_generated(recorders[static_cast<size_t>(i)], requests[static_cast<size_t>(i)]);
  }
}

TEST(BatchEngine, CompanionsDoNotChangeTheTokens) {
  Gate submitted;
  const auto engine = toy_engine(toy_config(), [&](const StepBatch&) { submitted.wait(); });
  expect_all_generated(*engine, 20, submitted);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.requests_finished, 20U);
  EXPECT_EQ(stats.requests_failed, 0U);
  EXPECT_EQ(stats.preemptions, 0U);
}

TEST(BatchEngine, TakingCacheBackDoesNotChangeTheTokens) {
  EngineConfig config = toy_config();
  config.runner.max_context = 200;
  config.runner.cache_bytes = 13 * kToyBlock * sizeof(TokenId);  // one request of 200 positions, not two
  Gate submitted;
  const auto engine = toy_engine(config, [&](const StepBatch&) { submitted.wait(); });
  expect_all_generated(*engine, 20, submitted);
  EXPECT_GT(engine->stats().preemptions, 0U);
  EXPECT_EQ(engine->stats().cache_blocks_used, 0);
  EXPECT_EQ(engine->stats().cache_blocks_total, 13);
}

TEST(BatchEngine, SeedDecidesTheTokens) {
  const auto engine = toy_engine(toy_config());
  std::deque<Recorder> recorders;
  std::vector<RequestHandle> handles;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{1}, uint64_t{2}}) {
    GenerationRequest request = request_of(10, 0, 40);
    request.sampling.seed = seed;
    handles.push_back(submit(*engine, request, recorders.emplace_back()));
  }
  for (const RequestHandle& handle : handles) {
    handle.wait();
  }
  EXPECT_EQ(recorders[0].tokens, recorders[1].tokens);
  EXPECT_NE(recorders[0].tokens, recorders[2].tokens);
}

TEST(BatchEngine, AcceptsRequestsFromManyThreads) {
  const auto engine = toy_engine(toy_config());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&engine, t] {
      for (int i = 0; i < 10; ++i) {
        Recorder recorder;
        const GenerationRequest request = request_of(5 + i, 100 * t + i, 10);
        const RequestHandle handle = submit(*engine, request, recorder);
        (void)engine->stats();
        handle.wait();
        EXPECT_TRUE(handle.finished());
        expect_generated(recorder, request);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(engine->stats().requests_finished, 40U);
}

TEST(BatchEngine, DecodingGoesOnInEveryStepBesideALongPrompt) {
  std::vector<int> single_rows;  // per step: sequences with one row
  Gate submitted;
  const auto engine = toy_engine(toy_config(), [&](const StepBatch& batch) {
    submitted.wait();
    ASSERT_LE(batch.rows(), 32);
    single_rows.push_back(static_cast<int>(std::count_if(batch.sequences.begin(), batch.sequences.end(),
                                                         [](const SequenceSlice& s) { return s.n_rows == 1; })));
    if (single_rows.back() > 0) {
      EXPECT_LE(batch.rows(), single_rows.back() + 8) << "prompt rows beside decoding ones are bounded";
    }
  });
  Recorder decoding;
  Recorder prefilling;
  const RequestHandle first = submit(*engine, request_of(2, 1, 30), decoding);
  const RequestHandle second = submit(*engine, request_of(300, 2, 5), prefilling);
  submitted.open();
  first.wait();
  second.wait();
  expect_generated(decoding, request_of(2, 1, 30));
  expect_generated(prefilling, request_of(300, 2, 5));
  // One step for both prompts, then 29 steps that each carry the decoding row.
  ASSERT_GE(single_rows.size(), 30U);
  EXPECT_TRUE(std::all_of(single_rows.begin() + 1, single_rows.begin() + 30, [](int n) { return n == 1; }));
}

TEST(BatchEngine, StopTokenEndsWithoutBeingDelivered) {
  const auto engine = toy_engine(toy_config());
  GenerationRequest request = request_of(12, 3, 50);
  const std::vector<TokenId> all = expected(request);
  request.stop_tokens = {all[20]};
  const auto first = std::find(all.begin(), all.end(), all[20]);
  Recorder recorder;
  submit(*engine, request, recorder).wait();
  EXPECT_EQ(recorder.tokens, std::vector<TokenId>(all.begin(), first));
  EXPECT_EQ(recorder.finish().reason, FinishReason::kStop);
  EXPECT_EQ(recorder.finish().stop_token, all[20]);
  EXPECT_EQ(recorder.finish().n_generated, static_cast<int>(first - all.begin()) + 1);
}

TEST(BatchEngine, RunsToTheEndOfTheContext) {
  const auto engine = toy_engine(toy_config());
  EXPECT_EQ(engine->max_context(), 400);
  for (const std::optional<int> max_tokens : {std::optional<int>(), std::optional<int>(1000)}) {
    GenerationRequest request = request_of(380, 4, 0);
    request.max_tokens = max_tokens;
    Recorder recorder;
    submit(*engine, request, recorder).wait();
    // The last token follows the 400th position, so it needs no place itself.
    EXPECT_EQ(recorder.tokens, toy_continuation(request.prompt, request.sampling, 21));
    EXPECT_EQ(recorder.finish().reason, FinishReason::kLength);
  }
  Recorder recorder;
  GenerationRequest full = request_of(400, 5, 10);
  submit(*engine, full, recorder).wait();
  EXPECT_EQ(recorder.tokens, toy_continuation(full.prompt, full.sampling, 1));
}

TEST(BatchEngine, LogprobsAreThoseOfTheModel) {
  const auto engine = toy_engine(toy_config());
  GenerationRequest request = request_of(25, 33, 12);
  request.logprobs = 3;
  Recorder recorder;
  submit(*engine, request, recorder).wait();
  std::vector<TokenId> tokens = request.prompt;
  for (const TokenEvent& event : recorder.events) {
    const Logprobs exact = compute_logprobs(toy_logits(tokens), event.token, 3);
    ASSERT_TRUE(event.logprobs.has_value());
    EXPECT_EQ(event.logprobs->chosen, exact.chosen);
    ASSERT_EQ(event.logprobs->top.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(event.logprobs->top[i].token, exact.top[i].token);
      EXPECT_EQ(event.logprobs->top[i].logprob, exact.top[i].logprob);
    }
    tokens.push_back(event.token);
  }
  EXPECT_EQ(recorder.events.size(), 12U);
}

// Every prompt token but the first is scored once, however the prompt is cut and whoever takes its cache away.
void expect_prompt_scored(const Recorder& recorder, const GenerationRequest& request) {
  const std::vector<TokenId>& prompt = request.prompt;
  size_t position = 1;
  for (const PromptEvent& event : recorder.prompts) {
    EXPECT_EQ(event.n_total, static_cast<int>(prompt.size()));
    EXPECT_EQ(event.first_position, static_cast<int>(position));
    for (const Logprobs& logprobs : event.logprobs) {
      const Logprobs exact = compute_logprobs(toy_logits(std::span(prompt).first(position)), prompt[position], 1);
      EXPECT_EQ(logprobs.chosen, exact.chosen) << "position " << position;
      EXPECT_EQ(logprobs.top.at(0).token, exact.top[0].token) << "position " << position;
      ++position;
    }
  }
  EXPECT_EQ(position, prompt.size());
  EXPECT_EQ(recorder.prompts.back().n_done, static_cast<int>(prompt.size()));
}

TEST(BatchEngine, PromptCanBeScored) {
  EngineConfig config = toy_config();
  config.runner.max_logits = 10;
  config.runner.cache_bytes = 25 * kToyBlock * sizeof(TokenId);
  Gate submitted;
  const auto engine = toy_engine(config, [&](const StepBatch&) { submitted.wait(); });
  std::deque<Recorder> recorders;
  std::vector<GenerationRequest> requests;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(request_of(1 + i * 17, 40 + i, i % 3 == 0 ? 0 : 60));
    requests.back().prompt_logprobs = 1;
    handles.push_back(submit(*engine, requests.back(), recorders.emplace_back()));
  }
  submitted.open();
  for (size_t i = 0; i < handles.size(); ++i) {
    handles[i].wait();
    SCOPED_TRACE("request " + std::to_string(i));
    expect_prompt_scored(recorders[i], requests[i]);
    expect_generated(recorders[i], requests[i]);
  }
  EXPECT_GT(engine->stats().preemptions, 0U);
}

TEST(BatchEngine, PromptEventsTellTheProgress) {
  const auto engine = toy_engine(toy_config());
  Recorder recorder;
  submit(*engine, request_of(80, 50, 1), recorder).wait();
  std::vector<int> done;
  for (const PromptEvent& event : recorder.prompts) {
    done.push_back(event.n_done);
    EXPECT_TRUE(event.logprobs.empty());
  }
  EXPECT_EQ(done, (std::vector<int>{32, 64, 80}));
}

TEST(BatchEngine, StatsCountWhatHappened) {
  EngineConfig config = toy_config();
  config.runner.max_sequences = 2;
  Gate submitted;
  Gate running;
  Gate looked;
  const auto engine = toy_engine(config, [&](const StepBatch& batch) {
    submitted.wait();
    if (batch.sequences.size() == 2) {
      running.open();
      looked.wait();
    }
  });
  std::deque<Recorder> recorders(5);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 5; ++i) {
    handles.push_back(submit(*engine, request_of(20, 80 + i, 30), recorders[static_cast<size_t>(i)]));
  }
  submitted.open();
  running.wait();
  EXPECT_EQ(engine->stats().running, 2);
  EXPECT_EQ(engine->stats().waiting, 3);
  EXPECT_EQ(engine->stats().cache_blocks_total, 50);
  looked.open();
  for (const RequestHandle& handle : handles) {
    handle.wait();
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.cache_blocks_used, 0);
  EXPECT_EQ(stats.cache_bytes_used, 0U);
  EXPECT_EQ(stats.requests_finished, 5U);
  EXPECT_EQ(stats.prompt_tokens, 100U);
  EXPECT_EQ(stats.generated_tokens, 150U);
  EXPECT_GE(stats.steps, 75U);
  EXPECT_GE(stats.step_seconds, stats.last_step_seconds);
  EXPECT_GT(stats.last_step_seconds, 0.0);
}

TEST(BatchEngine, TimingsAddUp) {
  const auto engine = toy_engine(toy_config());
  Recorder recorder;
  const auto begin = std::chrono::steady_clock::now();
  submit(*engine, request_of(100, 90, 50), recorder).wait();
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const FinishEvent& finish = recorder.finish();
  EXPECT_GT(finish.prefill_seconds, 0.0);
  EXPECT_GT(finish.decode_seconds, 0.0);
  EXPECT_LE(finish.queue_seconds + finish.prefill_seconds + finish.decode_seconds, elapsed);
}

}  // namespace
}  // namespace fathom
