// Threads for tasks that wait most of the time, such as connections: as many as there are tasks, up to a limit; those
// that have nothing to do stay for the next ones.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace fathom {

class GrowingThreads {
 public:
  explicit GrowingThreads(size_t max_threads) : max_threads_(max_threads) {}

  // Tasks throw nothing. Beyond the limit they wait for a thread.
  void start(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (n_idle_ < tasks_.size() && threads_.size() < max_threads_) {
      threads_.emplace_back([this] { work(); });
    }
    wake_.notify_one();
  }

  // After all tasks. Nothing may be started any more.
  void join() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++n_idle_;
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      --n_idle_;
      if (tasks_.empty()) {
        return;
      }
      {
        const std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
      }
      lock.lock();
    }
  }

  size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  size_t n_idle_ = 0;
  bool stopping_ = false;
};

}  // namespace fathom
