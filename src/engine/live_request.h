// A request inside the engine, from submit() to its last event: its tokens, its cache while it is active, and what its
// caller has been told.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/prefix_cache.h"
#include "cache/sequence_cache.h"
#include "core/matrix.h"
#include "engine/anchor_plan.h"
#include "engine/generation.h"
#include "engine/model_runner.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "grammar/constraint.h"
#include "sampling/sampler.h"

namespace fathom {

class LiveRequest {
 public:
  // What the engine gives every request.
  struct Limits {
    int vocab;
    int max_context;
    bool leaves_anchors;
    int anchor_interval;
  };

  // On the submitting thread. Throws kBadRequest and kContextBound for a request that cannot be served.
  LiveRequest(GenerationRequest request, GenerationCallbacks callbacks, std::shared_ptr<RequestState> state,
              const Limits& limits);

  // All else on the engine's thread.

  [[nodiscard]] LineEntry entry() const;
  // Takes cache. Throws kCacheFull, kOutOfMemory.
  void activate(ModelRunner& runner);
  // Gives the cache back; the tokens stay, so the request can be activated again.
  void deactivate() noexcept;
  [[nodiscard]] bool active() const { return cache_.has_value(); }

  // The following only while active.

  // Begins behind what `prefixes` holds of its tokens. Before its first step.
  PrefixMatch resume(PrefixCache& prefixes);
  // Takes no rows until `other` has computed `shared` tokens, where it leaves an anchor, or is gone.
  void wait_for(LiveRequest& other, int shared);
  // By id; empty unless it waits.
  struct Wait {
    uint64_t id;
    int position;
  };
  [[nodiscard]] const std::optional<Wait>& waits() const { return wait_; }
  // Leaves the anchors that are due after a step; `last`: also one at its end.
  void leave_anchors(PrefixCache& prefixes, bool last) const;
  [[nodiscard]] const SequenceCache& cache() const { return *cache_; }

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
  [[nodiscard]] uint64_t id() const { return id_; }
  [[nodiscard]] std::span<const TokenId> tokens() const { return tokens_; }
  // Every row tells of the next token, so none can be left out.
  [[nodiscard]] bool scores_prompt() const { return prompt_logprobs_.has_value() && n_reported_ < n_prompt_; }
  [[nodiscard]] int n_prompt_done() const { return n_reported_; }
  [[nodiscard]] int n_generated() const { return n_generated_; }
  // After end(): the last event. The callbacks are gone before the handle learns of it.
  void deliver_finish();

 private:
  using Clock = std::chrono::steady_clock;

  void report_prompt(HostMat<const float> logits, int start, int end);
  void draw(std::span<const float> logits, SamplingBuffers& buffers);
  [[nodiscard]] int end_of_step() const;

  uint64_t id_;
  GenerationCallbacks callbacks_;
  std::shared_ptr<RequestState> state_;
  Sampler sampler_;
  std::vector<TokenId> stop_tokens_;
  std::optional<ConstraintState> constraint_;  // has seen the generated tokens, whatever becomes of the cache
  std::optional<int> logprobs_;
  std::optional<int> prompt_logprobs_;
  std::optional<Clock::time_point> deadline_;

  std::vector<TokenId> tokens_;  // prompt, then generated
  int n_prompt_;
  int max_tokens_;      // of the sequence, the prompt included
  int n_reported_ = 0;  // prompt tokens that on_prompt has told of
  int n_generated_ = 0;
  AnchorPlan anchors_;
  std::optional<SequenceCache> cache_;
  std::optional<Wait> wait_;
  std::optional<PrefixMatch> prefix_;  // of the first activation
  int step_start_ = 0;                 // position before the step in progress

  std::optional<FinishEvent> finish_;
  Clock::time_point submitted_ = Clock::now();
  std::optional<Clock::time_point> started_;  // became active for the first time
  std::optional<Clock::time_point> first_token_;
};

}  // namespace fathom
