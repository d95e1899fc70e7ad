// A fixed set of threads that split loops by row. Made for steps of a few microseconds: workers spin briefly before
// they park, a dispatch allocates nothing, and the split depends on the number of threads only, never on timing.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "core/function_ref.h"

namespace fathom {

struct Range {
  int64_t first = 0;
  int64_t last = 0;  // one past the end

  [[nodiscard]] int64_t size() const { return last - first; }
};

// Part `index` of [0, n) cut into `parts` contiguous ranges whose sizes differ by at most one.
[[nodiscard]] constexpr Range partition(int64_t n, int parts, int index) {
  const int64_t each = n / parts;
  const int64_t larger = n % parts;  // the first ranges take one more
  const int64_t first = index * each + (index < larger ? index : larger);
  return {first, first + each + (index < larger ? 1 : 0)};
}

// Owns its worker threads; the thread that calls takes part as thread 0. One call at a time: a call from inside a task,
// or from a second thread while one runs, is a bug and aborts.
class ThreadPool {
 public:
  struct Options {
    int threads = 1;           // the caller included; see default_thread_count()
    bool pin_workers = false;  // worker i onto the i-th CPU of the affinity mask; the caller is left alone
  };

  // Throws Error: kBadRequest when `threads` is out of range.
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(errors_.size()); }

  // Calls task(thread) once on every thread and waits for all. What tasks throw is rethrown here after all are done:
  // the exception of the lowest thread when several throw.
  void run(FunctionRef<void(int thread)> task);

  // Calls body(range, thread) with partition(n, threads(), thread) on each thread whose range is not empty.
  template <class Body>
  void parallel_for(int64_t n, Body&& body) {
    run([&](int thread) {
      const Range range = partition(n, threads(), thread);
      if (range.size() > 0) {
        body(range, thread);
      }
    });
  }

 private:
  struct Unstarted {};
  ThreadPool(const Options& options, Unstarted);

  void work(int thread);
  void run_task(int thread) noexcept;

  int spins_ = 0;                           // polls before a waiting thread parks
  std::vector<std::exception_ptr> errors_;  // one per thread
  std::vector<std::thread> workers_;
  std::atomic<bool> busy_ = false;
  bool stopping_ = false;  // published by epoch_, as is task_
  const FunctionRef<void(int thread)>* task_ = nullptr;

  // Each on a cache line of its own: workers poll the first while others count down the second.
  static constexpr size_t kCacheLine = 64;
  alignas(kCacheLine) std::atomic<int> epoch_ = 0;    // bumped by every dispatch
  alignas(kCacheLine) std::atomic<int> pending_ = 0;  // workers that have not finished the current task
};

}  // namespace fathom
