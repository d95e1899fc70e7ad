// What a caller hands to the engine and what comes back.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/prefix_match.h"
#include "core/dtype.h"
#include "core/error.h"
#include "grammar/constraint.h"
#include "sampling/logprobs.h"
#include "sampling/sampling_params.h"

namespace fathom {

struct GenerationRequest {
  std::vector<TokenId> prompt;  // the whole conversation; never empty
  SamplingParams sampling;
  std::optional<int> max_tokens;  // 0: the prompt only; unset: to the end of the context
  std::vector<TokenId> stop_tokens;
  // What the reply has to look like. Log-probabilities are those of the model, as if there were no constraint.
  std::optional<GenerationConstraint> constraint;
  std::optional<int> logprobs;         // with so many alternatives (0: the chosen token's only); unset: none
  std::optional<int> prompt_logprobs;  // the same for every prompt token but the first
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Positions of the prompt behind which later prompts may go on differently, as borders of messages: where the engine
  // keeps what it computed, besides the places it chooses itself.
  std::vector<int> anchors;
};

// A part of the prompt was processed.
struct PromptEvent {
  int n_done = 0;                  // prompt tokens processed so far
  int n_total = 0;                 // prompt tokens
  int n_cached = 0;                // of those done, the ones that an earlier sequence had left behind
  int first_position = 0;          // of logprobs[0]
  std::vector<Logprobs> logprobs;  // of the prompt tokens from first_position on; empty unless asked for
};

struct TokenEvent {
  TokenId token = 0;
  int position = 0;  // in the sequence: the first generated token follows the prompt
  std::optional<Logprobs> logprobs;
};

enum class FinishReason : uint8_t {
  kStop,       // a stop token, which is not delivered as a TokenEvent; or the constraint's text is complete and there
               // is no stop token that could say so
  kLength,     // max_tokens, or the end of the context
  kCancelled,  // by the caller, or the engine shuts down
  kDeadline,
  kError,
};

struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;  // kStop by a token
  std::optional<Error> error;         // kError
  int n_prompt = 0;                   // prompt tokens
  int n_generated = 0;                // tokens drawn, a stop token included
  PrefixMatch prefix;                 // how much of the prompt an earlier sequence had left behind
  double queue_seconds = 0.0;         // submit to the first step
  double prefill_seconds = 0.0;       // first step to the first token
  double decode_seconds = 0.0;        // first token to the end
};

// Called on the engine's thread, in this order: on_prompt*, on_token*, on_finish once. They must be quick: every
// sequence waits for them. Returning false, like throwing, means that the caller is gone: the request is cancelled.
struct GenerationCallbacks {
  std::function<bool(const PromptEvent&)> on_prompt;  // may be empty
  std::function<bool(const TokenEvent&)> on_token;
  std::function<void(const FinishEvent&)> on_finish;
};

// State that a request's handle and its engine share.
class RequestState;

// A submitted request. Destroying it cancels the request and waits for on_finish to return, so callbacks may refer to
// what outlives the handle. (On the engine's thread, that is inside a callback, nothing waits.)
class RequestHandle {
 public:
  explicit RequestHandle(std::shared_ptr<RequestState> state) : state_(std::move(state)) {}
  ~RequestHandle();
  RequestHandle(RequestHandle&& other) noexcept = default;
  RequestHandle& operator=(RequestHandle&& other) noexcept;
  RequestHandle(const RequestHandle&) = delete;
  RequestHandle& operator=(const RequestHandle&) = delete;

  // Takes effect before the next step. From any thread, any number of times.
  void cancel() noexcept;
  [[nodiscard]] bool finished() const;
  // Until on_finish has returned.
  void wait() const;

 private:
  void release() noexcept;

  std::shared_ptr<RequestState> state_;
};

}  // namespace fathom
