// How requests end: by their caller, by a failure, by the clock, by shutdown; and which never begin.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "recorder.h"
#include "support/expect_error.h"
#include "toy_model.h"
#include "toy_requests.h"

namespace fathom {
namespace {

// A step that gives the test time to act before a long request ends.
void slow_step(const StepBatch& /*batch*/) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

TEST(RequestLife, CancelTakesEffectBeforeTheNextStep) {
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

TEST(RequestLife, CallerThatIsGoneIsCancelled) {
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

TEST(RequestLife, ThrowingAtTheLastEventHarmsNobody) {
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

TEST(RequestLife, DestroyedHandleCancelsAndWaits) {
  const auto engine = toy_engine(toy_config(), slow_step);
  Recorder recorder;
  { const RequestHandle handle = submit(*engine, request_of(8, 11, 300), recorder); }
  EXPECT_EQ(recorder.finish().reason, FinishReason::kCancelled);
  EXPECT_LT(recorder.tokens.size(), 300U);
}

TEST(RequestLife, HandleMayBeDestroyedInACallback) {
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

TEST(RequestLife, FailedStepFailsItsOwnRequestsOnly) {
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

TEST(RequestLife, OtherExceptionsOfAStepAreErrorsToo) {
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

TEST(RequestLife, BrokenLogitsFailOneRequest) {
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

TEST(RequestLife, DeadlineEndsRunningAndWaitingRequests) {
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

TEST(RequestLife, ShutdownGivesEveryRequestItsLastEvent) {
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

TEST(RequestLife, FullQueueTakesNothing) {
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

TEST(RequestLife, RejectsRequestsThatCannotBeServed) {
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

TEST(RequestLife, RejectsLimitsThatContradict) {
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
