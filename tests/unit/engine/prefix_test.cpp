// The engine with kept prefixes over the toy model, whose slot and blocks must fit each other and the tokens: what is
// computed is only what is new, and nothing of it changes a token.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "recorder.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "toy_model.h"
#include "toy_requests.h"

namespace fathom {
namespace {

EngineConfig prefix_config() {
  EngineConfig config = toy_config();
  config.runner.prefix_bytes = 1 << 20;
  config.anchor_interval = 40;  // 48, in whole blocks
  return config;
}

struct Engines {
  explicit Engines(const EngineConfig& config = prefix_config())
      : engine(toy_engine(config, [this](const StepBatch& batch) {
          gate.wait();
          rows += batch.rows();
        })) {}

  // The request alone; what it cost.
  int run(const GenerationRequest& request, Recorder& recorder) {
    gate.open();
    const int before = rows;
    submit(*engine, request, recorder).wait();
    expect_generated(recorder, request);
    return rows - before;
  }
  int run(const GenerationRequest& request) {
    Recorder recorder;
    return run(request, recorder);
  }

  Gate gate;
  int rows = 0;  // of all steps
  std::unique_ptr<Engine> engine;
};

GenerationRequest request_for(std::vector<TokenId> prompt, int max_tokens) {
  GenerationRequest request = request_of(1, 1, max_tokens);
  request.prompt = std::move(prompt);
  return request;
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Prefix, TheSamePromptCostsOneRow) {
  Engines e;
  const GenerationRequest request = request_for(toy_prompt(300), 5);
  Recorder first;
  EXPECT_EQ(e.run(request, first), 304) << "each row once";
  EXPECT_EQ(first.finish().prefix.cached, 0);
  Recorder second;
  EXPECT_EQ(e.run(request, second), 5);
  EXPECT_EQ(second.finish().prefix.cached, 299);
  ASSERT_EQ(second.prompts.size(), 1U);
  EXPECT_EQ(second.prompts[0].n_cached, 299);
  EXPECT_EQ(second.prompts[0].n_done, 300);

  const EngineStats stats = e.engine->stats();
  EXPECT_EQ(stats.prefix.hits, 1U);
  EXPECT_EQ(stats.prefix.misses, 1U);
  EXPECT_EQ(stats.prefix.cached_tokens, 299U);
  EXPECT_EQ(stats.prompt_tokens, 301U) << "those that were computed";
  EXPECT_EQ(stats.cache_blocks_used, stats.prefix.blocks);
}

TEST(Prefix, AConversationGoesOnWhereItEnded) {
  Engines e;
  GenerationRequest turn = request_for(toy_prompt(200), 20);
  Recorder reply;
  e.run(turn, reply);
  turn.prompt = joined(joined(turn.prompt, reply.tokens), toy_prompt(30, 5));
  Recorder next;
  // The last token of the reply was drawn, but not computed.
  EXPECT_EQ(e.run(turn, next), 31 + 19);
  EXPECT_EQ(next.finish().prefix.cached, 219);
  EXPECT_EQ(next.finish().prefix.matched, 219);
  EXPECT_EQ(next.finish().prefix.instead, std::nullopt);
}

TEST(Prefix, AnEditCostsAtMostTheDistanceOfAnchors) {
  Engines e;
  const std::vector<TokenId> prompt = toy_prompt(300);
  e.run(request_for(prompt, 1));
  for (const int at : {1, 47, 48, 50, 95, 96, 200, 298}) {
    SCOPED_TRACE(at);
    std::vector<TokenId> edited = prompt;
    edited[static_cast<size_t>(at)] = (edited[static_cast<size_t>(at)] + 1) % kToyPoison;
    Recorder recorder;
    EXPECT_LE(e.run(request_for(edited, 1), recorder), 300 - at + 48);
    EXPECT_GE(recorder.finish().prefix.matched, at);
    EXPECT_LE(recorder.finish().prefix.cached, at);
  }
}

TEST(Prefix, TellsWhereAndHowAPromptDiffers) {
  Engines e;
  std::vector<TokenId> prompt = toy_prompt(100);
  e.run(request_for(prompt, 1));
  const TokenId old = prompt[70];
  prompt[70] = (old + 1) % kToyPoison;
  Recorder recorder;
  e.run(request_for(prompt, 1), recorder);
  EXPECT_EQ(recorder.finish().prefix.cached, 48);
  EXPECT_EQ(recorder.finish().prefix.matched, 70);
  EXPECT_EQ(recorder.finish().prefix.instead, old);
}

TEST(Prefix, NamedPositionsAreKept) {
  Engines e;
  GenerationRequest request = request_for(toy_prompt(300), 1);
  request.anchors = {70};
  e.run(request);
  Recorder recorder;
  e.run(request_for(joined(toy_prompt(70), toy_prompt(50, 9)), 1), recorder);
  EXPECT_EQ(recorder.finish().prefix.cached, 70);

  request.anchors = {70, 301};
  EXPECT_ERROR(static_cast<void>(e.engine->submit(request, {})), ErrorCode::kBadRequest,
               "anchors[1]: position 301, expected 1 to 300");
  request.anchors = {0};
  EXPECT_ERROR(static_cast<void>(e.engine->submit(request, {})), ErrorCode::kBadRequest,
               "anchors[0]: position 0, expected 1 to 300");
}

TEST(Prefix, EqualPromptsAreComputedOnceTogether) {
  Engines e;
  std::deque<Recorder> recorders;
  std::vector<RequestHandle> handles;
  std::vector<GenerationRequest> requests;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(request_for(toy_prompt(300), 5));
    requests.back().sampling.seed = seed;
    handles.push_back(submit(*e.engine, requests.back(), recorders.emplace_back()));
  }
  e.gate.open();
  for (size_t i = 0; i < 4; ++i) {
    handles[i].wait();
    expect_generated(recorders[i], requests[i]);
    EXPECT_EQ(recorders[i].finish().prefix.cached, i == 0 ? 0 : 299);
  }
  EXPECT_EQ(e.rows, 299 + 4 * 5);
}

TEST(Prefix, PromptsThatBeginAlikeShareTheBeginning) {
  Engines e;
  std::deque<Recorder> recorders;
  std::vector<RequestHandle> handles;
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(request_for(joined(toy_prompt(150), toy_prompt(40, 7 + i)), 3));
    handles.push_back(submit(*e.engine, requests.back(), recorders.emplace_back()));
  }
  e.gate.open();
  for (size_t i = 0; i < 4; ++i) {
    handles[i].wait();
    expect_generated(recorders[i], requests[i]);
  }
  EXPECT_EQ(e.rows, 150 + 4 * (40 + 2));
}

TEST(Prefix, WhoeverWaitsGoesOnWhenTheOtherIsCancelled) {
  Engines e;
  Recorder first;
  Recorder second;
  const GenerationRequest request = request_for(toy_prompt(300), 5);
  std::optional<RequestHandle> a = submit(*e.engine, request, first);
  const RequestHandle b = submit(*e.engine, request, second);
  a->cancel();
  e.gate.open();
  b.wait();
  expect_generated(second, request);
  a.reset();
}

TEST(Prefix, ACancelledPromptIsNotComputedAgain) {
  Engines e;
  const GenerationRequest request = request_for(toy_prompt(300), 5);
  Recorder recorder;
  GenerationCallbacks callbacks = recorder.callbacks();
  callbacks.on_prompt = [](const PromptEvent& event) { return event.n_done < 128; };
  e.gate.open();
  std::optional<RequestHandle> handle = e.engine->submit(request, callbacks);
  handle->wait();
  EXPECT_EQ(recorder.finish().reason, FinishReason::kCancelled);
  const int spent = e.rows;
  EXPECT_EQ(e.run(request), 304 - spent);
}

TEST(Prefix, LogprobsOfThePromptNeedAllRows) {
  Engines e;
  GenerationRequest request = request_for(toy_prompt(60), 1);
  e.run(request);
  request.prompt_logprobs = 0;
  Recorder recorder;
  EXPECT_EQ(e.run(request, recorder), 60);
  EXPECT_EQ(recorder.finish().prefix.cached, 0);
  EXPECT_EQ(recorder.prompts.back().n_cached, 0);
}

TEST(Prefix, NothingIsKeptOfAFailedStep) {
  Engines e;
  GenerationRequest request = request_for(toy_prompt(20), 5);
  request.prompt.back() = kToyPoison;  // NaN
  Recorder recorder;
  e.gate.open();
  submit(*e.engine, request, recorder).wait();
  EXPECT_EQ(recorder.finish().reason, FinishReason::kError);
  EXPECT_EQ(e.engine->stats().prefix.anchors, 1) << "before its last token, which a step of its own computed";
}

TEST(Prefix, ANewEngineGoesOnFromDisk) {
  const test::TempDir dir;
  EngineConfig config = prefix_config();
  config.kv_dir = dir.path().string();
  const std::vector<TokenId> prompt = toy_prompt(300);
  { Engines(config).run(request_for(prompt, 5)); }
  Engines e(config);
  Recorder recorder;
  const int rows = e.run(request_for(joined(prompt, toy_prompt(20, 4)), 1), recorder);
  EXPECT_LE(rows, 20 + 300 / 64 + 1) << "the end of the first prompt, but for what is not worth an image";
  EXPECT_EQ(recorder.finish().prefix.matched, 300);
  EXPECT_EQ(e.engine->stats().prefix.disk->loads, 1U);

  config.runner.prefix_bytes = 0;
  EXPECT_ERROR(static_cast<void>(toy_engine(config)), ErrorCode::kBadRequest,
               "kv_dir: prefix_bytes is 0, expected room for what is read from it");
}

TEST(Prefix, IntervalMustNotBeNegative) {
  EngineConfig config = prefix_config();
  config.anchor_interval = -1;
  EXPECT_ERROR(static_cast<void>(toy_engine(config)), ErrorCode::kBadRequest,
               "anchor_interval: -1, expected at least 0");
}

// Conversations that go on, are retried, edited and cancelled, in a cache that is always too small, several at once.
class Conversations {
 public:
  explicit Conversations(size_t cache_blocks, uint32_t seed) : random_(seed) {
    EngineConfig config = prefix_config();
    config.runner.max_context = 200;
    config.runner.cache_bytes = cache_blocks * kToyBlock * sizeof(TokenId);
    config.runner.prefix_bytes = 4000;
    engine_ = toy_engine(config);
    histories_.push_back(toy_prompt(20));
  }

  void run(int n_requests) {
    for (int i = 0; i < n_requests; i += 3) {
      std::deque<Recorder> recorders;
      std::vector<GenerationRequest> requests;
      std::vector<RequestHandle> handles;
      for (int j = 0; j < 3; ++j) {
        requests.push_back(next_request(i + j));
        handles.push_back(submit(*engine_, requests.back(), recorders.emplace_back()));
      }
      const int cancelled = below(6);
      if (cancelled < 3) {
        handles[static_cast<size_t>(cancelled)].cancel();
      }
      for (size_t j = 0; j < 3; ++j) {
        handles[j].wait();
        if (static_cast<int>(j) != cancelled) {
          expect_generated(recorders[j], requests[j]);
          histories_.push_back(requests[j].prompt);
          histories_.back().insert(histories_.back().end(), recorders[j].tokens.begin(), recorders[j].tokens.end());
        }
      }
    }
  }

  [[nodiscard]] EngineStats stats() const { return engine_->stats(); }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  GenerationRequest next_request(int salt) {
    std::vector<TokenId> prompt =
        histories_[histories_.size() - 1 -
                   static_cast<size_t>(below(std::min<int>(static_cast<int>(histories_.size()), 6)))];
    if (below(3) == 0) {
      prompt.resize(static_cast<size_t>(1 + below(static_cast<int>(prompt.size()))));
    }
    const std::vector<TokenId> more = toy_prompt(below(30), salt);
    prompt.insert(prompt.end(), more.begin(), more.end());
    prompt.resize(std::min<size_t>(prompt.size(), 150));
    GenerationRequest request = request_for(prompt, 1 + below(20));
    request.sampling.seed = static_cast<uint64_t>(salt);
    if (below(2) == 0) {
      request.anchors.push_back(1 + below(static_cast<int>(prompt.size())));
    }
    return request;
  }

  std::mt19937 random_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::vector<TokenId>> histories_;
};

TEST(Prefix, RandomConversationsGenerateWhatTheirTokensSay) {
  for (const size_t cache_blocks : {13, 20, 40}) {
    Conversations conversations(cache_blocks, static_cast<uint32_t>(cache_blocks));
    conversations.run(300);
    const EngineStats stats = conversations.stats();
    EXPECT_EQ(stats.requests_failed, 0U);
    EXPECT_GT(stats.prefix.hits, 100U);
    EXPECT_GT(stats.prefix.evictions, 100U);
    EXPECT_LE(stats.prefix.bytes, 4000U);
    EXPECT_EQ(stats.cache_blocks_used, stats.prefix.blocks);
  }
}

}  // namespace
}  // namespace fathom
