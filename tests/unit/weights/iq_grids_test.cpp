#include "weights/iq_grids.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <vector>

namespace fathom {
namespace {

template <size_t kWidth, size_t kEntries>
void expect_distinct_entries_of(const IqGrid<kWidth, kEntries>& grid, const std::set<int>& levels) {
  std::set<std::array<int8_t, kWidth>> seen;
  std::set<int> used;
  for (const auto& entry : grid) {
    EXPECT_TRUE(seen.insert(entry).second);
    used.insert(entry.begin(), entry.end());
  }
  EXPECT_EQ(used, levels);
}

TEST(IqGrids, EntriesAreDistinctAndUseEveryLevel) {
  expect_distinct_entries_of(kIq2XxsGrid, {8, 25, 43});
  expect_distinct_entries_of(kIq2XsGrid, {8, 25, 43});
  expect_distinct_entries_of(kIq2SGrid, {8, 25, 43});
  expect_distinct_entries_of(kIq3XxsGrid, {4, 12, 20, 28, 36, 44, 52, 62});
  expect_distinct_entries_of(kIq3SGrid, {1, 3, 5, 7, 9, 11, 13, 15});
  expect_distinct_entries_of(kIq1Grid, {-1, 0, 1});
}

TEST(IqGrids, EighthSignMakesTheNumberOfNegativesEven) {
  for (unsigned bits = 0; bits < 128; ++bits) {
    EXPECT_EQ(even_signs(bits) & 0x7FU, bits);
    EXPECT_EQ(std::popcount(even_signs(bits)) % 2, 0);
  }
}

TEST(IqGrids, Iq4LevelsAscend) {
  for (size_t i = 1; i < kIq4Values.size(); ++i) {
    EXPECT_LT(kIq4Values[i - 1], kIq4Values[i]);
  }
}

}  // namespace
}  // namespace fathom
