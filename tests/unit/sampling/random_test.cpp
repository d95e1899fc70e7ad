#include "sampling/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace fathom {
namespace {

using Counter = std::array<uint32_t, 4>;

// The known answers of the authors' Random123 library for philox4x32 with 10 rounds.
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformAt, EverySeedAndPositionCounts) {
  std::set<double> drawn;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (const uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
      drawn.insert(uniform_at(seed, position));
      EXPECT_EQ(uniform_at(seed, position), uniform_at(seed, position));
    }
  }
  EXPECT_EQ(drawn.size(), 16U);
}

TEST(UniformAt, FillsTheUnitIntervalEvenly) {
  constexpr int kDraws = 100'000;
  constexpr int kBins = 100;
  std::vector<int> bins(kBins);
  for (int i = 0; i < kDraws; ++i) {
    const double u = uniform_at(7, static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * kBins)];
  }
  // Binomial with mean 1000 and deviation 31.5: five deviations.
  EXPECT_GT(*std::min_element(bins.begin(), bins.end()), 1000 - 158);
  EXPECT_LT(*std::max_element(bins.begin(), bins.end()), 1000 + 158);
}

}  // namespace
}  // namespace fathom
