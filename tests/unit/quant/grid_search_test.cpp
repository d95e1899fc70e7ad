#include "quant/grid_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "quant/quantize.h"
#include "support/random_values.h"
#include "weights/dequantize.h"
#include "weights/iq_grids.h"

namespace fathom {
namespace {

using test::normal_values;

struct Group {
  std::vector<float> x;
  std::vector<float> w;
};

Group random_group(uint32_t seed, size_t width) {
  Group g{normal_values(width, seed), normal_values(width, seed + 1000)};
  for (size_t i = 0; i < width; ++i) {
    g.x[i] = std::fabs(g.x[i]);
    g.w[i] = seed % 2 == 0 ? 1.0F : g.w[i] * g.w[i] + 0.01F;
  }
  return g;
}

template <size_t kWidth, size_t kEntries>
double entry_error(const IqGrid<kWidth, kEntries>& grid, size_t entry, const Group& g, double scale) {
  double error = 0;
  for (size_t i = 0; i < kWidth; ++i) {
    const double difference = g.x[i] - scale * grid[entry][i];
    error += g.w[i] * difference * difference;
  }
  return error;
}

// At any scale in the range, the best of the choices is as good as the best of all entries.
template <size_t kWidth, size_t kEntries>
void expect_choices_complete(const IqGrid<kWidth, kEntries>& grid, float largest_level) {
  const GridTable table(grid);
  const GridTable* const tables[] = {&table};
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Group g = random_group(seed, kWidth);
    const ScaleRange range = scale_range(g.x, largest_level);
    Choices choices;
    find_choices(tables, g.x.data(), g.w.data(), range, choices);
    for (int step = 0; step <= 20; ++step) {
      const float scale = range.low + (range.high - range.low) * static_cast<float>(step) / 20.0F;
      double least = entry_error(grid, 0, g, scale);
      for (size_t e = 1; e < kEntries; ++e) {
        least = std::min(least, entry_error(grid, e, g, scale));
      }
      const double chosen = entry_error(grid, choices.best(scale).entry, g, scale);
      ASSERT_LE(chosen, least + 1e-5 * (least + 1e-3)) << "seed " << seed << " step " << step;
    }
  }
}

TEST(GridSearch, ChoicesHoldTheBestEntryForEveryScale) {
  expect_choices_complete(kIq2XxsGrid, 43.0F);
  expect_choices_complete(kIq2XsGrid, 43.0F);
  expect_choices_complete(kIq2SGrid, 43.0F);
  expect_choices_complete(kIq3XxsGrid, 62.0F);
  expect_choices_complete(kIq3SGrid, 15.0F);
}

TEST(GridSearch, ScaledGridEntriesAreFoundAgain) {
  const GridTable table(kIq2XsGrid);
  const GridTable* const tables[] = {&table};
  const std::vector<float> w(8, 1.0F);
  for (size_t first = 0; first + 2 <= kIq2XsGrid.size(); first += 2) {
    std::vector<float> x;
    for (const size_t e : {first, first + 1}) {
      for (const int8_t level : kIq2XsGrid[e]) {
        x.push_back(0.37F * static_cast<float>(level));
      }
    }
    const ScaleRange range = scale_range(x, 43.0F);
    std::vector<Choices> groups(2);
    find_choices(tables, x.data(), w.data(), range, groups[0]);
    find_choices(tables, x.data() + 8, w.data(), range, groups[1]);
    const GroupFit fit = fit_groups(groups, range);
    double left = fit.cost;  // error relative to all zeros
    for (const float v : x) {
      left += static_cast<double>(v) * v;
    }
    EXPECT_NEAR(left, 0.0, 1e-2) << first;
  }
}

TEST(GridSearch, SeveralTablesCountThroughTheirEntries) {
  const GridTable up(kIq1Grid, 0.125F);
  const GridTable down(kIq1Grid, -0.125F);
  const GridTable* const tables[] = {&up, &down};
  const std::vector<float> w(8, 1.0F);
  for (size_t e = 0; e < kIq1Grid.size(); e += 97) {
    for (const float delta : {0.125F, -0.125F}) {
      std::vector<float> x;
      for (const int8_t level : kIq1Grid[e]) {
        x.push_back(static_cast<float>(level) + delta);
      }
      Choices choices;
      find_choices(tables, x.data(), w.data(), {0.5F, 1.5F}, choices);
      EXPECT_EQ(choices.best(1.0F).entry, e + (delta < 0 ? 2048 : 0));
    }
  }
}

TEST(GridSearch, ZerosHaveAChoiceAndNoScale) {
  const GridTable table(kIq2XxsGrid);
  const GridTable* const tables[] = {&table};
  const std::vector<float> x(8, 0.0F);
  const std::vector<float> w(8, 1.0F);
  Choices choices;
  find_choices(tables, x.data(), w.data(), scale_range(x, 43.0F), choices);
  EXPECT_GE(choices.count, 1);
  EXPECT_EQ(fit_groups({&choices, 1}, scale_range(x, 43.0F)).scale, 0.0F);
}

// Formats that store seven signs of eight: an odd number of negative values costs one wrong sign, the least important.
TEST(GridSearch, OddSignsFlipTheLeastImportantValue) {
  for (const DType dtype : {DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ3_XXS}) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = 1.0F + 0.1F * static_cast<float>(i % 7);
    }
    x[9] = -1.0F;
    x[12] = 0.01F;
    std::vector<std::byte> bytes(dtype_row_bytes(dtype, 256));
    std::vector<float> y(256);
    quantize_row(dtype, x.data(), bytes.data(), 256);
    dequantize_row(dtype, bytes.data(), y.data(), 256);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::signbit(y[i]), i == 9 || i == 12) << dtype_info(dtype).name << " " << i;
    }
  }
}

}  // namespace
}  // namespace fathom
