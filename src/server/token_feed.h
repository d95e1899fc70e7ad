// The tokens of one or several generations of the same client, from the engine's thread to the connection's: a bounded
// queue between two threads that must not wait for each other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "engine/engine.h"

namespace fathom {

struct FeedEvent {
  int choice = 0;  // which of the requests
  std::variant<PromptEvent, TokenEvent, FinishEvent> event;
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
};

// Of the first request: the others have the same prompt.
struct PromptProgress {
  int n_done = 0;    // tokens processed
  int n_cached = 0;  // of those, the ones that an earlier sequence had left behind
};

// What a request that ended without its answer being finished throws: ApiError, or the engine's Error.
[[noreturn]] void throw_unfinished(const FinishEvent& event);

class TokenFeed {
 public:
  // Submits all requests. Throws what Engine::submit throws, and ApiError kRateLimit when its queue is full; then none
  // is running.
  TokenFeed(Engine& engine, std::vector<GenerationRequest> requests);
  // Cancels what still runs, and waits for it.
  ~TokenFeed() = default;
  TokenFeed(const TokenFeed&) = delete;
  TokenFeed& operator=(const TokenFeed&) = delete;

  // The next event, waiting for it up to `timeout`. Every request ends with a FinishEvent. Prompt events come only for
  // requests that ask for the prompt's log-probabilities; others are seen in prompt().
  // Throws ApiError kOverloaded when so many events wait that the client must have stopped reading.
  [[nodiscard]] std::optional<FeedEvent> next(std::chrono::milliseconds timeout);

  void cancel(int choice) noexcept { handles_[static_cast<size_t>(choice)].cancel(); }
  void cancel_all() noexcept;
  [[nodiscard]] PromptProgress prompt() const;

 private:
  // Enough for the seconds that a client may take over a chunk; a few hundred bytes each with log-probabilities.
  static constexpr size_t kMaxWaiting = 8192;

  bool push(FeedEvent event);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FeedEvent> events_;
  bool overflowed_ = false;
  PromptProgress prompt_;
  std::vector<RequestHandle> handles_;  // last, so that their callbacks end first
};

}  // namespace fathom
