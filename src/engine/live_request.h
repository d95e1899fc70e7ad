// A request inside the engine, from submit() to its last event: its tokens, its cache while it is active, and what its
// caller has been told.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "cache/sequence_cache.h"
#include "core/matrix.h"
#include "engine/generation.h"
#include "engine/model_runner.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "sampling/sampler.h"

namespace fathom {

class LiveRequest {
 public:
  // On the submitting thread. Throws kBadRequest and kContextBound for a request that cannot be served.
  LiveRequest(GenerationRequest request, GenerationCallbacks callbacks, std::shared_ptr<RequestState> state, int vocab,
              int max_context);

  // All else on the engine's thread.

  [[nodiscard]] LineEntry entry() const;
  // Takes cache. Throws kCacheFull, kOutOfMemory.
  void activate(ModelRunner& runner);
  // Gives the cache back; the tokens stay, so the request can be activated again.
  void deactivate() noexcept { cache_.reset(); }

  // The next `n_rows` of its pending tokens.
  [[nodiscard]] StepInput step_input(int n_rows);
  // After the step: `logits` are those of step_input(). Sends events. Throws kDevice for logits that are not finite.
  void advance(HostMat<const float> logits, SamplingBuffers& buffers);

  // Ends the request if its caller wants it no longer or its deadline has passed.
  void check_caller();
  // The first reason given counts.
  void end(FinishReason reason);
  void fail(const Error& error);
  [[nodiscard]] bool ended() const { return finish_.has_value(); }
  [[nodiscard]] bool failed() const { return ended() && finish_->reason == FinishReason::kError; }
  [[nodiscard]] int n_prompt_done() const { return n_reported_; }
  [[nodiscard]] int n_generated() const { return n_generated_; }
  // After end(): the last event. The callbacks are gone before the handle learns of it.
  void deliver_finish();

 private:
  using Clock = std::chrono::steady_clock;

  void report_prompt(HostMat<const float> logits, int start, int end);
  void draw(std::span<const float> logits, SamplingBuffers& buffers);
  [[nodiscard]] bool scores_prompt() const { return prompt_logprobs_.has_value() && n_reported_ < n_prompt_; }

  GenerationCallbacks callbacks_;
  std::shared_ptr<RequestState> state_;
  Sampler sampler_;
  std::vector<TokenId> stop_tokens_;
  std::optional<int> logprobs_;
  std::optional<int> prompt_logprobs_;
  std::optional<Clock::time_point> deadline_;

  std::vector<TokenId> tokens_;  // prompt, then generated
  int n_prompt_;
  int max_tokens_;      // of the sequence, the prompt included
  int n_reported_ = 0;  // prompt tokens that on_prompt has told of
  int n_generated_ = 0;
  std::optional<SequenceCache> cache_;
  int step_start_ = 0;  // position before the step in progress

  std::optional<FinishEvent> finish_;
  Clock::time_point submitted_ = Clock::now();
  std::optional<Clock::time_point> started_;  // became active for the first time
  std::optional<Clock::time_point> first_token_;
};

}  // namespace fathom
