#include "server/token_feed.h"

#include <utility>

#include "server/api_error.h"

namespace fathom {

void throw_unfinished(const FinishEvent& event) {
  if (event.reason == FinishReason::kDeadline) {
    throw ApiError(ApiErrorKind::kTimeout, "the request took longer than the server allows");
  }
  if (event.error) {
    throw Error(*event.error);
  }
  throw ApiError(ApiErrorKind::kOverloaded, "the server is shutting down");
}

TokenFeed::TokenFeed(Engine& engine, std::vector<GenerationRequest> requests) {
  handles_.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const int choice = static_cast<int>(i);
    const bool wants_prompt = requests[i].prompt_logprobs.has_value();
    GenerationCallbacks callbacks;
    callbacks.on_prompt = [this, choice, wants_prompt](const PromptEvent& event) {
      if (choice == 0) {
        const std::lock_guard lock(mutex_);
        prompt_.n_done = event.n_done;
        prompt_.n_cached = event.n_cached;
      }
      return !wants_prompt || push({choice, event});
    };
    callbacks.on_token = [this, choice](const TokenEvent& event) { return push({choice, event}); };
    // Always delivered: its reader waits for it.
    callbacks.on_finish = [this, choice](const FinishEvent& event) {
      {
        const std::lock_guard lock(mutex_);
        events_.push_back({choice, event});
      }
      changed_.notify_one();
    };
    auto handle = engine.submit(std::move(requests[i]), std::move(callbacks));
    if (!handle) {
      throw ApiError(ApiErrorKind::kRateLimit, "too many requests are waiting; try again later");
    }
    handles_.push_back(std::move(*handle));
  }
}

std::optional<FeedEvent> TokenFeed::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return !events_.empty(); });
  if (overflowed_) {
    throw ApiError(ApiErrorKind::kOverloaded, "the client reads too slowly; the generation was ended");
  }
  if (events_.empty()) {
    return std::nullopt;
  }
  FeedEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void TokenFeed::cancel_all() noexcept {
  for (RequestHandle& handle : handles_) {
    handle.cancel();
  }
}

PromptProgress TokenFeed::prompt() const {
  const std::lock_guard lock(mutex_);
  return prompt_;
}

bool TokenFeed::push(FeedEvent event) {
  const std::lock_guard lock(mutex_);
  overflowed_ = overflowed_ || events_.size() >= kMaxWaiting;
  if (!overflowed_) {
    events_.push_back(std::move(event));
  }
  changed_.notify_one();
  return !overflowed_;
}

}  // namespace fathom
