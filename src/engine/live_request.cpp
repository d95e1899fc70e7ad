#include "engine/live_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/log.h"

namespace fathom {
namespace {

void check_tokens(const char* field, std::span<const TokenId> tokens, int vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("{}[{}]: token {}, expected an id from 0 to {}", field, i, tokens[i], vocab - 1));
    }
  }
}

void check_logprobs(const char* field, const std::optional<int>& n) {
  if (n && (*n < 0 || *n > kMaxTopLogprobs)) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: {}, expected 0 to {}", field, *n, kMaxTopLogprobs));
  }
}

void check_constraint(const std::optional<GenerationConstraint>& constraint, int vocab) {
  if (!constraint) {
    return;
  }
  FATHOM_CHECK(constraint->grammar != nullptr, "a constraint has a grammar");
  if (constraint->grammar->vocab() != static_cast<size_t>(vocab)) {
    throw Error(ErrorCode::kBadRequest, fmt::format("constraint: made for a vocabulary of {} tokens, expected {}",
                                                    constraint->grammar->vocab(), vocab));
  }
  if (constraint->trigger) {
    check_tokens("constraint.trigger.token", std::span(&constraint->trigger->token, 1), vocab);
    check_tokens("constraint.trigger.forbidden_before", constraint->trigger->forbidden_before, vocab);
  }
}

const GenerationRequest& checked(const GenerationRequest& request, int vocab, int max_context) {
  if (request.prompt.empty()) {
    throw Error(ErrorCode::kBadRequest, "prompt: empty, expected at least one token");
  }
  if (request.prompt.size() > static_cast<size_t>(max_context)) {
    throw Error(ErrorCode::kContextBound,
                fmt::format("prompt: {} tokens, but the context holds {}", request.prompt.size(), max_context));
  }
  check_tokens("prompt", request.prompt, vocab);
  check_tokens("stop_tokens", request.stop_tokens, vocab);
  if (request.max_tokens.value_or(0) < 0) {
    throw Error(ErrorCode::kBadRequest, fmt::format("max_tokens: {}, expected at least 0", *request.max_tokens));
  }
  check_logprobs("logprobs", request.logprobs);
  check_logprobs("prompt_logprobs", request.prompt_logprobs);
  const int n_prompt = static_cast<int>(request.prompt.size());
  for (size_t i = 0; i < request.anchors.size(); ++i) {
    if (const int position = request.anchors[i]; position < 1 || position > n_prompt) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("anchors[{}]: position {}, expected 1 to {}", i, position, n_prompt));
    }
  }
  check_constraint(request.constraint, vocab);
  return request;
}

// A callback that throws is one whose caller is gone.
template <class Callback, class Event>
bool accepted(const Callback& callback, const Event& event) noexcept {
  try {
    return !callback || callback(event);
  } catch (...) {
    return false;
  }
}

uint64_t next_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

LiveRequest::LiveRequest(GenerationRequest request, GenerationCallbacks callbacks, std::shared_ptr<RequestState> state,
                         const Limits& limits)
    : id_(next_id()),
      callbacks_(std::move(callbacks)),
      state_(std::move(state)),
      sampler_(checked(request, limits.vocab, limits.max_context).sampling, limits.vocab, request.prompt),
      stop_tokens_(std::move(request.stop_tokens)),
      logprobs_(request.logprobs),
      prompt_logprobs_(request.prompt_logprobs),
      deadline_(request.deadline),
      tokens_(std::move(request.prompt)),
      n_prompt_(static_cast<int>(tokens_.size())),
      anchors_(limits.leaves_anchors ? AnchorPlan(n_prompt_, request.anchors, limits.anchor_interval) : AnchorPlan()) {
  // The last token needs no place in the context: nothing is computed from it.
  const int room = limits.max_context + 1 - n_prompt_;
  max_tokens_ = n_prompt_ + std::min(request.max_tokens.value_or(room), room);
  if (request.constraint) {
    constraint_.emplace(std::move(*request.constraint), stop_tokens_);
  }
}

LineEntry LiveRequest::entry() const {
  return {.n_tokens = static_cast<int>(tokens_.size()),
          .n_cached = cache_ ? cache_->position() : 0,
          .all_logits = scores_prompt(),
          .max_rows = wait_ ? 0 : end_of_step() - (cache_ ? cache_->position() : 0)};
}

int LiveRequest::end_of_step() const {
  const int end = static_cast<int>(tokens_.size());
  return cache_ ? anchors_.end_of_step(cache_->position(), end, cache_->rewind_rows()) : end;
}

void LiveRequest::activate(ModelRunner& runner) {
  cache_.emplace(runner.make_sequence());
  if (!started_) {
    started_ = Clock::now();
  }
}

void LiveRequest::deactivate() noexcept {
  cache_.reset();
  wait_.reset();
}

PrefixMatch LiveRequest::resume(PrefixCache& prefixes) {
  wait_.reset();
  if (scores_prompt()) {
    return {};
  }
  const PrefixMatch match = prefixes.resume(tokens_, *cache_);
  if (!prefix_) {
    prefix_ = match;
    n_reported_ = match.cached;
  }
  return match;
}

void LiveRequest::wait_for(LiveRequest& other, int shared) {
  other.anchors_.add(shared);
  wait_ = Wait{other.id_, shared};
}

void LiveRequest::leave_anchors(PrefixCache& prefixes, bool last) const {
  const int position = cache_->position();
  const std::span<const TokenId> tokens = tokens_;
  for (int p = anchors_.next(step_start_); p <= position; p = anchors_.next(p)) {
    prefixes.keep(tokens.first(static_cast<size_t>(p)), *cache_);
  }
  if (last) {
    prefixes.keep(tokens.first(static_cast<size_t>(position)), *cache_);
  }
}

StepInput LiveRequest::step_input(int n_rows) {
  FATHOM_CHECK(cache_.has_value(), "only an active request takes part in a step");
  step_start_ = cache_->position();
  const auto rows =
      std::span<const TokenId>(tokens_).subspan(static_cast<size_t>(step_start_), static_cast<size_t>(n_rows));
  const int n_tokens = static_cast<int>(tokens_.size());
  const bool draws = step_start_ + n_rows == n_tokens && n_tokens < max_tokens_;
  return {.sequence = &*cache_, .tokens = rows, .n_logits = scores_prompt() ? n_rows : static_cast<int>(draws)};
}

void LiveRequest::advance(HostMat<const float> logits, SamplingBuffers& buffers) {
  const int position = cache_->position();
  const int n_tokens = static_cast<int>(tokens_.size());
  report_prompt(logits, step_start_, position);
  if (ended() || position < n_tokens) {
    return;
  }
  if (n_tokens < max_tokens_) {
    draw(logits.row(logits.rows() - 1), buffers);
  }
  if (static_cast<int>(tokens_.size()) == max_tokens_) {
    end(FinishReason::kLength);
  }
}

// Row i of a step tells about the token at position start + i + 1. Rows that run again, because the cache was taken
// away in between, were reported before.
void LiveRequest::report_prompt(HostMat<const float> logits, int start, int end_position) {
  const int n_done = std::min(end_position, n_prompt_);
  if (n_done <= n_reported_) {
    return;
  }
  PromptEvent event{.n_done = n_done,
                    .n_total = n_prompt_,
                    .n_cached = prefix_ ? prefix_->cached : 0,
                    .first_position = n_reported_ + 1,
                    .logprobs = {}};
  if (scores_prompt()) {
    for (int position = event.first_position; position < std::min(n_done + 1, n_prompt_); ++position) {
      event.logprobs.push_back(compute_logprobs(logits.row(position - 1 - start),
                                                tokens_[static_cast<size_t>(position)], *prompt_logprobs_));
    }
  }
  n_reported_ = n_done;
  if (!accepted(callbacks_.on_prompt, event)) {
    end(FinishReason::kCancelled);
  }
}

void LiveRequest::draw(std::span<const float> logits, SamplingBuffers& buffers) {
  TokenEvent event;
  event.position = static_cast<int>(tokens_.size());
  event.token = sampler_.sample(logits, event.position, buffers, constraint_ ? constraint_->allowed() : TokenMask());
  ++n_generated_;
  if (!first_token_) {
    first_token_ = Clock::now();
  }
  if (std::find(stop_tokens_.begin(), stop_tokens_.end(), event.token) != stop_tokens_.end()) {
    end(FinishReason::kStop);
    finish_->stop_token = event.token;
    return;
  }
  if (logprobs_) {
    event.logprobs = compute_logprobs(logits, event.token, *logprobs_);
  }
  sampler_.accept(event.token);
  tokens_.push_back(event.token);
  if (constraint_) {
    constraint_->accept(event.token);
  }
  if (!accepted(callbacks_.on_token, event)) {
    end(FinishReason::kCancelled);
  }
  if (constraint_ && constraint_->finished() && stop_tokens_.empty()) {
    end(FinishReason::kStop);
  }
}

void LiveRequest::check_caller() {
  if (state_->cancelled()) {
    end(FinishReason::kCancelled);
  } else if (deadline_ && Clock::now() >= *deadline_) {
    end(FinishReason::kDeadline);
  }
}

void LiveRequest::end(FinishReason reason) {
  if (!finish_) {
    finish_.emplace().reason = reason;
  }
}

void LiveRequest::fail(const Error& error) {
  if (!finish_) {
    end(FinishReason::kError);
    // With a text of its own: copies of an exception share theirs, and the callers are on different threads.
    finish_->error.emplace(error.code(), error.what());
  }
}

void LiveRequest::deliver_finish() {
  const Clock::time_point now = Clock::now();
  const Clock::time_point started = started_.value_or(now);
  const Clock::time_point first_token = first_token_.value_or(now);
  finish_->n_prompt = n_prompt_;
  finish_->n_generated = n_generated_;
  finish_->prefix = prefix_.value_or(PrefixMatch{});
  finish_->queue_seconds = seconds(started - submitted_);
  finish_->prefill_seconds = seconds(first_token - started);
  finish_->decode_seconds = seconds(now - first_token);
  try {
    if (callbacks_.on_finish) {
      callbacks_.on_finish(*finish_);
    }
  } catch (...) {
    log_warn("a request's on_finish threw; its caller may not know that it is over");
  }
  // Nothing that the caller was handed, or handed over, may outlive this in the engine.
  callbacks_ = {};
  finish_.reset();
  state_->set_finished();
}

}  // namespace fathom
