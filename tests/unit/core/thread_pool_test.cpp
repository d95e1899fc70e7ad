#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/cpu_count.h"
#include "core/error.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

TEST(Partition, CoversEveryIndexOnceInOrder) {
  for (const int64_t n : {0, 1, 2, 7, 8, 9, 1000, 1003}) {
    for (int parts = 1; parts <= 9; ++parts) {
      int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range range = partition(n, parts, i);
        EXPECT_EQ(range.first, next);
        EXPECT_GE(range.size(), n / parts);
        EXPECT_LE(range.size(), n / parts + 1);
        next = range.last;
      }
      EXPECT_EQ(next, n) << parts << " parts";
    }
  }
}

class ThreadPoolOf : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool_{{.threads = GetParam()}};
};

TEST_P(ThreadPoolOf, RunsOnceOnEveryThread) {
  std::vector<std::thread::id> ids(static_cast<size_t>(GetParam()));
  pool_.run([&](int thread) { ids[static_cast<size_t>(thread)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
  EXPECT_EQ(pool_.threads(), GetParam());
}

TEST_P(ThreadPoolOf, SplitsEveryLengthExactly) {
  for (const int64_t n : {0, 1, 2, 3, 5, 8, 17, 1000}) {
    std::vector<int> visits(static_cast<size_t>(n), 0);
    pool_.parallel_for(n, [&](Range range, int thread) {
      EXPECT_EQ(range.first, partition(n, GetParam(), thread).first);
      EXPECT_GT(range.size(), 0);
      for (int64_t i = range.first; i < range.last; ++i) {
        ++visits[static_cast<size_t>(i)];
      }
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1));
  }
}

TEST_P(ThreadPoolOf, ManyShortStepsLoseNothing) {
  constexpr int kSteps = 2000;
  std::vector<int64_t> sums(static_cast<size_t>(GetParam()), 0);
  for (int step = 1; step <= kSteps; ++step) {
    pool_.run([&](int thread) { sums[static_cast<size_t>(thread)] += step; });
  }
  EXPECT_EQ(sums, std::vector<int64_t>(sums.size(), int64_t{kSteps} * (kSteps + 1) / 2));
}

TEST_P(ThreadPoolOf, WakesAfterWorkersHaveParked) {
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> calls = 0;
    pool_.run([&](int) { ++calls; });
    EXPECT_EQ(calls, GetParam());
  }
}

TEST_P(ThreadPoolOf, RethrowsTheLowestThreadsExceptionAfterAllFinished) {
  std::atomic<int> calls = 0;
  try {
    pool_.run([&](int thread) {
      ++calls;
      throw std::runtime_error("thread " + std::to_string(thread));
    });
    FAIL() << "nothing was rethrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "thread 0");
  }
  EXPECT_EQ(calls, GetParam());
}

TEST_P(ThreadPoolOf, WorksAfterAnException) {
  const int last = GetParam() - 1;
  const auto fail_on_last = [&](int thread) {
    if (thread == last) {
      throw Error(ErrorCode::kDevice, "last thread");
    }
  };
  EXPECT_ERROR(pool_.run(fail_on_last), ErrorCode::kDevice, "last thread");
  std::atomic<int> calls = 0;
  pool_.run([&](int) { ++calls; });
  EXPECT_EQ(calls, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Range(1, 9));

TEST(ThreadPool, PinnedWorkersStayOnOneCpu) {
  ThreadPool pool({.threads = 3, .pin_workers = true});
  const size_t callers = available_cpus().size();
  std::vector<size_t> n_cpus(3);
  pool.run([&](int thread) { n_cpus[static_cast<size_t>(thread)] = available_cpus().size(); });
  EXPECT_EQ(n_cpus, (std::vector<size_t>{callers, 1, 1}));
}

TEST(ThreadPool, RefusesAnImpossibleNumberOfThreads) {
  EXPECT_ERROR(ThreadPool({.threads = 0}), ErrorCode::kBadRequest, "threads: 0, expected 1 to 1024");
  EXPECT_ERROR(ThreadPool({.threads = 1025}), ErrorCode::kBadRequest, "threads: 1025, expected 1 to 1024");
}

TEST(ThreadPoolDeathTest, NestedUseIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        ThreadPool pool({.threads = 2});
        pool.run([&](int) { pool.run([](int) {}); });
      },
      "ThreadPool::run called while it runs");
}

TEST(CpuCount, ReadsCgroupQuotas) {
  EXPECT_EQ(parse_cgroup_cpu_max("200000 100000"), 2.0);
  EXPECT_EQ(parse_cgroup_cpu_max("150000 100000"), 1.5);
  EXPECT_EQ(parse_cgroup_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cgroup_cpu_max("-1 100000"), std::nullopt);
  EXPECT_EQ(parse_cgroup_cpu_max("200000 0"), std::nullopt);
  EXPECT_EQ(parse_cgroup_cpu_max("200000"), std::nullopt);
  EXPECT_EQ(parse_cgroup_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cgroup_cpu_max(" "), std::nullopt);
}

TEST(CpuCount, DefaultFitsTheAffinityMask) {
  const std::vector<int> cpus = available_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_LE(default_thread_count(), static_cast<int>(cpus.size()));
}

}  // namespace
}  // namespace fathom
