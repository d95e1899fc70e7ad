// The engine over the toy model: what requests see of each other, which is nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "recorder.h"
#include "support/expect_error.h"
#include "toy_model.h"

namespace fathom {
namespace {

SamplingParams seeded(uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  params.frequency_penalty = 0.3F;
  return params;
}

GenerationRequest request_of(int n_prompt, int salt, int max_tokens) {
  GenerationRequest request;
  request.prompt = toy_prompt(n_prompt, salt);
  request.sampling = seeded(static_cast<uint64_t>(salt));
  request.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> expected(const GenerationRequest& request) {
  return toy_continuation(request.prompt, request.sampling, *request.max_tokens);
}

void expect_generated(const Recorder& recorder, const GenerationRequest& request) {
  EXPECT_EQ(recorder.tokens, expected(request));
  EXPECT_EQ(recorder.finish().reason, FinishReason::kLength);
  EXPECT_EQ(recorder.finish().n_prompt, static_cast<int>(request.prompt.size()));
  EXPECT_EQ(recorder.finish().n_generated, *request.max_tokens);
  for (size_t i = 0; i < recorder.events.size(); ++i) {
    EXPECT_EQ(recorder.events[i].position, static_cast<int>(request.prompt.size() + i));
  }
}

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

// A step that gives the test time to act before a long request ends.
void slow_step(const StepBatch& /*batch*/) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

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

TEST(BatchEngine, CancelTakesEffectBeforeTheNextStep) {
  const auto engine = toy_engine(toy_config());
  Recorder other_recorder;
  const GenerationRequest other_request = request_of(9, 6, 100);
  const RequestHandle other = submit(*engine, other_request, other_recorder);
  Gate reached;
  Gate cancelled;
  Recorder recorder;
  recorder.on_token = [&](const TokenEvent&) {
    if (recorder.tokens.size() == 5) {
      reached.open();
      cancelled.wait();
    }
    return true;
  };
  RequestHandle handle = submit(*engine, request_of(20, 7, 300), recorder);
  reached.wait();
  handle.cancel();
  cancelled.open();
  handle.wait();
  EXPECT_EQ(recorder.tokens.size(), 5U);
  EXPECT_EQ(recorder.finish().reason, FinishReason::kCancelled);
  EXPECT_EQ(recorder.finish().n_generated, 5);
  other.wait();
  expect_generated(other_recorder, other_request);
}

TEST(BatchEngine, CallerThatIsGoneIsCancelled) {
  const auto engine = toy_engine(toy_config());
  Recorder refusing;
  refusing.on_token = [&](const TokenEvent&) { return refusing.tokens.size() < 3; };
  Recorder throwing;
  throwing.on_token = [&](const TokenEvent&) -> bool { throw std::runtime_error("broken pipe"); };
  const RequestHandle a = submit(*engine, request_of(8, 8, 100), refusing);
  const RequestHandle b = submit(*engine, request_of(8, 9, 100), throwing);
  a.wait();
  b.wait();
  EXPECT_EQ(refusing.tokens.size(), 3U);
  EXPECT_EQ(refusing.finish().reason, FinishReason::kCancelled);
  EXPECT_EQ(throwing.tokens.size(), 1U);
  EXPECT_EQ(throwing.finish().reason, FinishReason::kCancelled);

  Recorder during_prompt;
  GenerationCallbacks callbacks = during_prompt.callbacks();
  callbacks.on_prompt = [](const PromptEvent& event) { return event.n_done < 64; };
  engine->submit(request_of(300, 10, 5), std::move(callbacks))->wait();
  EXPECT_TRUE(during_prompt.tokens.empty());
  EXPECT_EQ(during_prompt.finish().reason, FinishReason::kCancelled);
}

TEST(BatchEngine, ThrowingAtTheLastEventHarmsNobody) {
  const auto engine = toy_engine(toy_config());
  const auto handle = engine->submit(
      request_of(4, 13, 2),
      {.on_prompt = {}, .on_token = {}, .on_finish = [](const FinishEvent&) { throw std::runtime_error("gone"); }});
  handle->wait();
  EXPECT_TRUE(handle->finished());
  Recorder recorder;
  submit(*engine, request_of(4, 13, 2), recorder).wait();
  expect_generated(recorder, request_of(4, 13, 2));
}

TEST(BatchEngine, DestroyedHandleCancelsAndWaits) {
  const auto engine = toy_engine(toy_config(), slow_step);
  Recorder recorder;
  { const RequestHandle handle = submit(*engine, request_of(8, 11, 300), recorder); }
  EXPECT_EQ(recorder.finish().reason, FinishReason::kCancelled);
  EXPECT_LT(recorder.tokens.size(), 300U);
}

TEST(BatchEngine, HandleMayBeDestroyedInACallback) {
  const auto engine = toy_engine(toy_config());
  Gate submitted;
  Gate finished;
  std::optional<RequestHandle> handle;
  handle = engine->submit(request_of(8, 12, 300), {.on_prompt = {},
                                                   .on_token =
                                                       [&](const TokenEvent&) {
                                                         submitted.wait();
                                                         handle.reset();
                                                         return true;
                                                       },
                                                   .on_finish =
                                                       [&](const FinishEvent& event) {
                                                         EXPECT_EQ(event.reason, FinishReason::kCancelled);
                                                         EXPECT_EQ(event.n_generated, 1);
                                                         finished.open();
                                                       }});
  submitted.open();
  finished.wait();
}

TEST(BatchEngine, FailedStepFailsItsOwnRequestsOnly) {
  Gate submitted;
  int n_steps = 0;
  const auto engine = toy_engine(toy_config(), [&](const StepBatch& batch) {
    submitted.wait();
    if (++n_steps == 20) {
      EXPECT_EQ(batch.sequences.size(), 4U);
      throw Error(ErrorCode::kDevice, "toy: injected");
    }
  });
  std::deque<Recorder> recorders(6);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 6; ++i) {
    handles.push_back(submit(*engine, request_of(30, 20 + i, 60), recorders[static_cast<size_t>(i)]));
  }
  submitted.open();
  for (const RequestHandle& handle : handles) {
    handle.wait();
  }
  // Four run at once: one of their steps failed, and the two that waited know nothing of it.
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(recorders[i].finish().reason, FinishReason::kError);
    EXPECT_EQ(recorders[i].finish().error->code(), ErrorCode::kDevice);
    EXPECT_STREQ(recorders[i].finish().error->what(), "toy: injected");
  }
  for (int i = 4; i < 6; ++i) {
    expect_generated(recorders[static_cast<size_t>(i)], request_of(30, 20 + i, 60));
  }
  EXPECT_EQ(engine->stats().requests_failed, 4U);
  EXPECT_EQ(engine->stats().steps_failed, 1U);
  EXPECT_EQ(engine->stats().cache_blocks_used, 0);
}

TEST(BatchEngine, OtherExceptionsOfAStepAreErrorsToo) {
  int n_steps = 0;
  const auto engine = toy_engine(toy_config(), [&](const StepBatch&) {
    switch (n_steps++) {
      case 0:
        throw std::bad_alloc();
      case 1:
        throw std::logic_error("odd");
      case 2:
        throw 42;
      default:
        break;
    }
  });
  const auto error_of_next = [&engine]() -> std::optional<Error> {
    Recorder recorder;
    submit(*engine, request_of(3, 30, 2), recorder).wait();
    return recorder.finish().error;
  };
  EXPECT_STREQ(error_of_next()->what(), "the engine ran out of memory");
  EXPECT_STREQ(error_of_next()->what(), "unexpected failure: odd");
  EXPECT_STREQ(error_of_next()->what(), "unexpected failure");
  EXPECT_FALSE(error_of_next().has_value());
}

TEST(BatchEngine, BrokenLogitsFailOneRequest) {
  const auto engine = toy_engine(toy_config());
  Recorder healthy;
  const GenerationRequest request = request_of(40, 31, 80);
  const RequestHandle other = submit(*engine, request, healthy);
  Recorder broken;
  GenerationRequest poisoned = request_of(5, 32, 10);
  poisoned.prompt.push_back(kToyPoison);
  submit(*engine, poisoned, broken).wait();
  EXPECT_EQ(broken.finish().reason, FinishReason::kError);
  EXPECT_STREQ(broken.finish().error->what(),
               "logit of token 49 is nan, expected a finite number: the step's arithmetic failed");
  other.wait();
  expect_generated(healthy, request);
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

TEST(BatchEngine, DeadlineEndsRunningAndWaitingRequests) {
  EngineConfig config = toy_config();
  config.runner.max_sequences = 1;
  const auto engine = toy_engine(config);
  Recorder running;
  GenerationRequest endless = request_of(5, 51, 390);
  endless.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  running.on_token = [&](const TokenEvent&) {
    std::this_thread::sleep_until(*endless.deadline);
    return true;
  };
  Recorder waiting;
  GenerationRequest late = request_of(5, 52, 10);
  late.deadline = endless.deadline;
  const RequestHandle first = submit(*engine, endless, running);
  const RequestHandle second = submit(*engine, late, waiting);
  first.wait();
  second.wait();
  EXPECT_EQ(running.finish().reason, FinishReason::kDeadline);
  EXPECT_EQ(running.finish().n_generated, 1);
  EXPECT_EQ(waiting.finish().reason, FinishReason::kDeadline);
  EXPECT_EQ(waiting.finish().n_generated, 0);
  EXPECT_GT(waiting.finish().queue_seconds, 0.0);
  EXPECT_EQ(waiting.finish().prefill_seconds, 0.0);
}

TEST(BatchEngine, ShutdownGivesEveryRequestItsLastEvent) {
  std::deque<Recorder> recorders(12);
  std::vector<RequestHandle> handles;
  {
    const auto engine = toy_engine(toy_config(), slow_step);
    for (int i = 0; i < 12; ++i) {
      handles.push_back(submit(*engine, request_of(100, 60 + i, 300), recorders[static_cast<size_t>(i)]));
    }
  }
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_TRUE(handles[i].finished());
    EXPECT_EQ(recorders[i].finish().reason, FinishReason::kCancelled);
  }
}

TEST(BatchEngine, FullQueueTakesNothing) {
  EngineConfig config = toy_config();
  config.runner.max_sequences = 1;
  config.max_queue = 2;
  Gate gate;
  const auto engine = toy_engine(config, [&](const StepBatch&) { gate.wait(); });
  std::deque<Recorder> recorders(4);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 3; ++i) {
    handles.push_back(submit(*engine, request_of(5, 70 + i, 3), recorders[static_cast<size_t>(i)]));
  }
  EXPECT_FALSE(engine->submit(request_of(5, 73, 3), recorders[3].callbacks()).has_value());
  EXPECT_TRUE(recorders[3].finishes.empty());
  gate.open();
  for (const RequestHandle& handle : handles) {
    handle.wait();
  }
  submit(*engine, request_of(5, 73, 3), recorders[3]).wait();
  for (int i = 0; i < 4; ++i) {
    expect_generated(recorders[static_cast<size_t>(i)], request_of(5, 70 + i, 3));
  }
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

TEST(BatchEngine, RejectsRequestsThatCannotBeServed) {
  const auto engine = toy_engine(toy_config());
  const auto submit_spoiled = [&engine](auto spoil) {
    GenerationRequest request = request_of(5, 91, 5);
    spoil(request);
    Recorder recorder;
    (void)engine->submit(std::move(request), recorder.callbacks());
  };
  using R = GenerationRequest;
  EXPECT_ERROR(submit_spoiled([](R& r) { r.prompt.clear(); }), ErrorCode::kBadRequest,
               "prompt: empty, expected at least one token");
  EXPECT_ERROR(submit_spoiled([](R& r) { r.prompt = toy_prompt(401); }), ErrorCode::kContextBound,
               "prompt: 401 tokens, but the context holds 400");
  EXPECT_ERROR(submit_spoiled([](R& r) { r.prompt[2] = 50; }), ErrorCode::kBadRequest,
               "prompt[2]: token 50, expected an id from 0 to 49");
  EXPECT_ERROR(submit_spoiled([](R& r) {
                 r.stop_tokens = {3, -1};
               }),
               ErrorCode::kBadRequest, "stop_tokens[1]: token -1, expected an id from 0 to 49");
  EXPECT_ERROR(submit_spoiled([](R& r) { r.max_tokens = -1; }), ErrorCode::kBadRequest,
               "max_tokens: -1, expected at least 0");
  EXPECT_ERROR(submit_spoiled([](R& r) { r.logprobs = 21; }), ErrorCode::kBadRequest, "logprobs: 21, expected 0 to 20");
  EXPECT_ERROR(submit_spoiled([](R& r) { r.prompt_logprobs = -1; }), ErrorCode::kBadRequest,
               "prompt_logprobs: -1, expected 0 to 20");
  EXPECT_ERROR(submit_spoiled([](R& r) { r.sampling.top_p = 0.0F; }), ErrorCode::kBadRequest,
               "top_p: 0, expected above 0 and at most 1");
}

TEST(BatchEngine, RejectsLimitsThatContradict) {
  EngineConfig config = toy_config();
  config.max_queue = -1;
  EXPECT_ERROR((void)toy_engine(config), ErrorCode::kBadRequest, "max_queue: -1, expected at least 0");
  config = toy_config();
  config.runner.backend.max_rows = 3;
  EXPECT_ERROR((void)toy_engine(config), ErrorCode::kBadRequest,
               "max_rows: 3, expected at least 4 (a row for each of max_sequences)");
}

}  // namespace
}  // namespace fathom
