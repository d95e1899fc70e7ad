#include "core/thread_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include "core/check.h"
#include "core/cpu_count.h"
#include "core/error.h"

namespace fathom {
namespace {

constexpr int kMaxThreads = 1024;

// About 100 microseconds of polling: longer than the gaps between the ops of a step, short enough that an idle pool
// costs nothing that a user would notice.
constexpr int kSpins = 2000;

void relax_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `value` differs from `old`: polls first, then sleeps in the kernel.
void wait_while_equal(const std::atomic<int>& value, int old, int spins) noexcept {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) {
      return;
    }
    relax_cpu();
  }
  value.wait(old, std::memory_order_acquire);
}

// Best effort: a CPU that went offline in the meantime leaves the thread where the kernel puts it.
void pin_this_thread(int cpu) noexcept {
  if (cpu >= CPU_SETSIZE) {
    return;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

ThreadPool::ThreadPool(const Options& options, Unstarted) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    throw Error(ErrorCode::kBadRequest, fmt::format("threads: {}, expected 1 to {}", options.threads, kMaxThreads));
  }
  errors_.resize(static_cast<size_t>(options.threads));
  workers_.reserve(errors_.size() - 1);
}

// Delegating makes the object complete before the first worker starts, so a failure to start a later one runs the
// destructor, which stops and joins the earlier ones.
ThreadPool::ThreadPool(const Options& options) : ThreadPool(options, Unstarted{}) {
  const std::vector<int> cpus = available_cpus();
  const size_t n_cpus = cpus.size();
  // With more threads than CPUs a poll keeps the awaited thread from running.
  spins_ = errors_.size() <= n_cpus ? kSpins : 0;
  for (int thread = 1; thread < options.threads; ++thread) {
    const int cpu = options.pin_workers ? cpus[static_cast<size_t>(thread) % n_cpus] : -1;
    workers_.emplace_back([this, thread, cpu] {
      if (cpu >= 0) {
        pin_this_thread(cpu);
      }
      work(thread);
    });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::run(FunctionRef<void(int thread)> task) {
  FATHOM_CHECK(!busy_.exchange(true), "ThreadPool::run called while it runs");
  task_ = &task;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  run_task(0);
  for (int left = pending_.load(); left != 0; left = pending_.load()) {
    wait_while_equal(pending_, left, spins_);
  }
  busy_.store(false);

  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    if (error != nullptr && first == nullptr) {
      first = error;
    }
    error = nullptr;
  }
  if (first != nullptr) {
    std::rethrow_exception(first);
  }
}

void ThreadPool::work(int thread) {
  for (int seen = 0;;) {
    wait_while_equal(epoch_, seen, spins_);
    seen = epoch_.load();
    if (stopping_) {
      return;
    }
    run_task(thread);
    if (pending_.fetch_sub(1) == 1) {
      pending_.notify_one();
    }
  }
}

void ThreadPool::run_task(int thread) noexcept {
  try {
    (*task_)(thread);
  } catch (...) {  // carried to the caller of run()
    errors_[static_cast<size_t>(thread)] = std::current_exception();
  }
}

}  // namespace fathom
