// An engine that says what a test tells it to: for tests of the server. One thread serves all requests in turn, a token
// each, as the real one does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/request_state.h"

namespace fathom::test {

// What one request is answered. After the tokens comes `end`; a stop token is the request's first one.
struct Script {
  std::vector<TokenId> tokens = {};
  FinishReason end = FinishReason::kStop;
  std::optional<Error> error = {};  // with FinishReason::kError
  int prompt_steps = 1;             // before the first token
  int cached = 0;                   // tokens of the prompt that need no work
  bool endless = false;             // the tokens again and again, until the request is cancelled
};

class ScriptedEngine final : public Engine {
 public:
  using Answer = std::function<Script(const GenerationRequest&)>;

  explicit ScriptedEngine(Answer answer, int max_context = 4096, std::chrono::microseconds step = {})
      : answer_(std::move(answer)), max_context_(max_context), step_(step), thread_([this] { run(); }) {}

  ~ScriptedEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  [[nodiscard]] std::optional<RequestHandle> submit(GenerationRequest request, GenerationCallbacks callbacks) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (live_.size() >= max_unfinished) {
      return std::nullopt;
    }
    auto state = std::make_shared<RequestState>(thread_.get_id());
    Script script = answer_(request);
    live_.push_back(std::make_unique<Live>(Live{.request = std::move(request),
                                                .callbacks = std::move(callbacks),
                                                .script = std::move(script),
                                                .state = state}));
    wake_.notify_one();
    return RequestHandle(std::move(state));
  }
  [[nodiscard]] int max_context() const override { return max_context_; }
  [[nodiscard]] EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.running = static_cast<int>(live_.size());
    return stats;
  }

  // What was submitted, also what was refused.
  [[nodiscard]] std::vector<GenerationRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  size_t max_unfinished = 64;

 private:
  struct Live {
    GenerationRequest request;
    GenerationCallbacks callbacks;
    Script script;
    std::shared_ptr<RequestState> state;
    int n_steps = 0;
    int n_tokens = 0;
    std::optional<FinishEvent> finish = {};
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ || !live_.empty()) {
      wake_.wait(lock, [this] { return stopping_ || !live_.empty(); });
      std::vector<Live*> step;
      for (const auto& live : live_) {
        step.push_back(live.get());
      }
      const bool stopping = stopping_;
      lock.unlock();
      std::this_thread::sleep_for(step_);
      for (Live* live : step) {
        advance(*live, stopping);
      }
      lock.lock();
      drop_finished(lock);
    }
  }

  void drop_finished(std::unique_lock<std::mutex>& lock) {
    std::vector<std::unique_ptr<Live>> over;
    for (auto& live : live_) {
      if (live->finish) {
        over.push_back(std::move(live));
      }
    }
    std::erase(live_, nullptr);
    stats_.requests_finished += over.size();
    ++stats_.steps;
    lock.unlock();
    for (const auto& live : over) {
      live->callbacks.on_finish(*live->finish);
      live->callbacks = {};
      live->state->set_finished();
    }
    lock.lock();
  }

  static void advance(Live& live, bool stopping) {
    const int n_prompt = static_cast<int>(live.request.prompt.size());
    if (live.state->cancelled() || stopping) {
      return finish(live, FinishReason::kCancelled);
    }
    if (live.request.deadline && std::chrono::steady_clock::now() >= *live.request.deadline) {
      return finish(live, FinishReason::kDeadline);
    }
    if (++live.n_steps <= live.script.prompt_steps) {
      PromptEvent event;
      event.n_done = n_prompt * live.n_steps / live.script.prompt_steps;
      event.n_total = n_prompt;
      event.n_cached = live.script.cached;
      if (live.callbacks.on_prompt && !live.callbacks.on_prompt(event)) {
        finish(live, FinishReason::kCancelled);
      }
      return;
    }
    const int limit = live.request.max_tokens.value_or(1 << 20);
    const size_t n_script = live.script.tokens.size();
    if (live.n_tokens >= limit) {
      return finish(live, FinishReason::kLength);
    }
    if (n_script == 0 || (!live.script.endless && static_cast<size_t>(live.n_tokens) >= n_script)) {
      return finish(live, live.script.end);
    }
    TokenEvent event;
    event.token = live.script.tokens[static_cast<size_t>(live.n_tokens) % n_script];
    event.position = n_prompt + live.n_tokens++;
    if (live.request.logprobs) {
      event.logprobs = Logprobs{.chosen = -0.5F, .top = {{event.token, -0.5F}, {0, -2.0F}}};
      event.logprobs->top.resize(static_cast<size_t>(std::min(*live.request.logprobs, 2)));
    }
    if (!live.callbacks.on_token(event)) {
      finish(live, FinishReason::kCancelled);
    }
  }

  static void finish(Live& live, FinishReason reason) {
    live.finish.emplace();
    live.finish->reason = reason;
    live.finish->n_prompt = static_cast<int>(live.request.prompt.size());
    live.finish->n_generated = live.n_tokens + (reason == FinishReason::kStop ? 1 : 0);
    if (reason == FinishReason::kStop && !live.request.stop_tokens.empty()) {
      live.finish->stop_token = live.request.stop_tokens.front();
    }
    live.finish->error = live.script.error;
  }

  Answer answer_;
  int max_context_;
  std::chrono::microseconds step_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Live>> live_;
  std::vector<GenerationRequest> requests_;
  EngineStats stats_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fathom::test
