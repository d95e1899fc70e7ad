// Keeps what a request's callbacks are told, for tests to look at once the request has finished.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace fathom {

// A door that one thread waits at until another opens it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Must outlive the request's handle.
class Recorder {
 public:
  std::function<bool(const TokenEvent&)> on_token;  // asked after a token is recorded, when set

  [[nodiscard]] GenerationCallbacks callbacks() {
    return {.on_prompt =
                [this](const PromptEvent& event) {
                  EXPECT_TRUE(tokens.empty() && finishes.empty());
                  prompts.push_back(event);
                  return true;
                },
            .on_token =
                [this](const TokenEvent& event) {
                  EXPECT_TRUE(finishes.empty());
                  events.push_back(event);
                  tokens.push_back(event.token);
                  return !on_token || on_token(event);
                },
            .on_finish = [this](const FinishEvent& event) { finishes.push_back(event); }};
  }

  // The one last event.
  [[nodiscard]] const FinishEvent& finish() const {
    EXPECT_EQ(finishes.size(), 1U);
    return finishes.at(0);
  }

  std::vector<PromptEvent> prompts;
  std::vector<TokenEvent> events;
  std::vector<TokenId> tokens;
  std::vector<FinishEvent> finishes;
};

// Submits to an engine that has room.
inline RequestHandle submit(Engine& engine, GenerationRequest request, Recorder& recorder) {
  std::optional<RequestHandle> handle = engine.submit(std::move(request), recorder.callbacks());
  EXPECT_TRUE(handle.has_value());
  return std::move(handle).value();
}

}  // namespace fathom
