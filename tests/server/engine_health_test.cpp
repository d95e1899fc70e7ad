#include "server/engine_health.h"

#include <gtest/gtest.h>

namespace fathom::test {
namespace {

using std::chrono::seconds;

EngineStats stats(int running, uint64_t steps, uint64_t failed = 0) {
  EngineStats out;
  out.running = running;
  out.steps = steps;
  out.steps_failed = failed;
  return out;
}

TEST(EngineHealth, EndsWhenStepsDo) {
  EngineHealth health(seconds(10));
  const auto start = EngineHealth::Clock::now();
  EXPECT_TRUE(health.check(stats(1, 5), start));
  EXPECT_TRUE(health.check(stats(1, 5), start + seconds(9)));
  EXPECT_FALSE(health.check(stats(1, 5), start + seconds(11)));
  EXPECT_TRUE(health.check(stats(1, 6), start + seconds(12))) << "a step has ended";
  EXPECT_TRUE(health.check(stats(0, 6), start + seconds(90))) << "nothing to do";
}

TEST(EngineHealth, EndsForAWhileWhenStepsFail) {
  EngineHealth health(seconds(100));
  const auto start = EngineHealth::Clock::now();
  EXPECT_TRUE(health.check(stats(1, 5), start));
  EXPECT_TRUE(health.check(stats(1, 7, 2), start));
  EXPECT_FALSE(health.check(stats(1, 8, 3), start));
  EXPECT_TRUE(health.check(stats(0, 8, 3), start + seconds(11))) << "requests may try again";
  EXPECT_TRUE(health.check(stats(1, 10, 4), start + seconds(12))) << "one of two worked";
}

}  // namespace
}  // namespace fathom::test
