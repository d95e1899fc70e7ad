// What a request's handle and its engine share; also for engines that tests make up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace fathom {

class RequestState {
 public:
  // `engine_thread`: the one that calls the callbacks, and therefore must not wait for them.
  explicit RequestState(std::thread::id engine_thread) : engine_thread_(engine_thread) {}

  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

  // By the engine, after on_finish has returned.
  void set_finished();
  [[nodiscard]] bool finished() const;
  // Until set_finished(); on the engine's thread it returns at once.
  void wait() const;

 private:
  std::thread::id engine_thread_;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool finished_ = false;
};

}  // namespace fathom
