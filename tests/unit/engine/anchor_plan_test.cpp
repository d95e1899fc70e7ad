#include "engine/anchor_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace fathom {
namespace {

constexpr int kNone = std::numeric_limits<int>::max();

std::vector<int> all(const AnchorPlan& plan, int end) {
  std::vector<int> positions;
  for (int p = plan.next(0); p <= end; p = plan.next(p)) {
    positions.push_back(p);
  }
  return positions;
}

TEST(AnchorPlan, IsEmptyByDefault) {
  EXPECT_EQ(AnchorPlan().next(0), kNone);
  EXPECT_EQ(AnchorPlan().end_of_step(3, 90, 0), 90);
}

TEST(AnchorPlan, TakesNamedPositionsRegularOnesAndTheLastButOne) {
  const std::vector<int> named{1700, 600};
  EXPECT_EQ(all(AnchorPlan(2000, named, 512), 3000), (std::vector<int>{512, 600, 1024, 1536, 1700, 1999, 2048, 2560}));
  EXPECT_EQ(all(AnchorPlan(2000, {}, 0), 3000), (std::vector<int>{1999}));
  EXPECT_EQ(all(AnchorPlan(1, {}, 0), 3000), std::vector<int>{}) << "nothing lies before the only token";
}

TEST(AnchorPlan, LeavesOutNamedPositionsThatFollowEachOtherClosely) {
  const std::vector<int> named{255, 300, 400, 556, 700, 811, 1000, 1001};
  EXPECT_EQ(all(AnchorPlan(1010, named, 0), 2000), (std::vector<int>{300, 556, 1000, 1001, 1009}))
      << "but not the last";
}

TEST(AnchorPlan, TakesOneMoreOnce) {
  AnchorPlan plan(1000, {}, 0);
  plan.add(40);
  plan.add(40);
  plan.add(0);
  EXPECT_EQ(all(plan, 2000), (std::vector<int>{40, 999}));
}

TEST(AnchorPlan, StepsEndWhereNoAnchorIsMissed) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int i = 0; i < 2000; ++i) {
    const int n_prompt = 1 + below(3000);
    std::vector<int> named(static_cast<size_t>(below(5)));
    std::generate(named.begin(), named.end(), [&] { return 1 + below(n_prompt); });
    const AnchorPlan plan(n_prompt, named, 256 * below(3));
    const int slack = below(3) * 8;
    for (int start = 0; start < n_prompt;) {
      const int limit = start + 1 + below(700);
      const int end = plan.end_of_step(start, limit, slack);
      ASSERT_GT(end, start);
      ASSERT_LE(end, limit);
      for (int p = plan.next(start); p <= end; p = plan.next(p)) {
        ASSERT_LE(end - p, slack);
      }
      ASSERT_TRUE(end == limit || plan.next(end - 1) == end) << "a step ends early only at an anchor";
      start = end;
    }
  }
}

}  // namespace
}  // namespace fathom
