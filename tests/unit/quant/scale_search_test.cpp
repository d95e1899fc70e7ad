#include "quant/scale_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "quant/iq4_levels.h"
#include "support/random_values.h"

namespace fathom {
namespace {

using test::normal_values;

const std::vector<float> kOnes(64, 1.0F);

template <class Levels>
double error_at(const std::vector<float>& x, const Levels& levels, float scale) {
  double error = 0;
  for (const float v : x) {
    const double difference = v - static_cast<double>(scale) * levels.nearest(v / scale);
    error += difference * difference;
  }
  return error;
}

// Compared with trying very many scales.
template <class Levels>
void expect_near_best(const Levels& levels, float step, size_t n) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> x = normal_values(n, seed);
    double least = 1e30;
    for (int i = 1; i <= 1000; ++i) {
      const float scale = 8.0F / -levels.lowest() * static_cast<float>(i) / 1000.0F;
      least = std::min({least, error_at(x, levels, scale), error_at(x, levels, -scale)});
    }
    const double found = error_at(x, levels, fit_scale(x, kOnes.data(), levels, step));
    EXPECT_LE(found, least * 1.1) << seed;
  }
}

TEST(FitScale, IsNearlyAsGoodAsAnExhaustiveSearch) {
  expect_near_best(IntegerLevels{-8, 7}, 0.2F, 32);
  expect_near_best(IntegerLevels{-4, 3}, 0.1F, 16);
  expect_near_best(Iq4Levels{}, kIq4TargetStep, 32);
}

TEST(FitScale, FindsTheScaleOfExactMultiples) {
  const IntegerLevels levels{-8, 7};
  for (const float scale : {0.3F, -0.3F}) {
    for (int extreme = 5; extreme <= 8; ++extreme) {
      std::vector<float> x;
      for (int code = -extreme; code < std::min(extreme, 8); ++code) {
        x.push_back(scale * static_cast<float>(code));
      }
      EXPECT_NEAR(error_at(x, levels, fit_scale(x, kOnes.data(), levels, 0.2F)), 0.0, 1e-10) << extreme;
    }
  }
  EXPECT_EQ(fit_scale(std::vector<float>(8, 0.0F), kOnes.data(), levels, 0.2F), 0.0F);
}

TEST(FitAffine, FindsTheScaleAndMinimumOfExactCodes) {
  for (const float min : {-2.0F, 0.0F, 3.0F}) {
    for (const int top : {15, 14, 11}) {
      std::vector<float> x;
      for (int code = 0; code <= top; ++code) {
        x.push_back(0.25F * static_cast<float>(code) + min);
      }
      const AffineFit fit = fit_affine(x, kOnes.data(), 15, false);
      EXPECT_NEAR(fit.scale, 0.25F, 1e-6) << min << " " << top;
      EXPECT_NEAR(fit.min, min, 1e-5) << min << " " << top;
    }
  }
}

TEST(FitAffine, KeepsTheMinimumAtOrBelowZeroWhenAsked) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::vector<float> x = normal_values(32, seed);
    for (float& v : x) {
      v += 1.5F;
    }
    EXPECT_LE(fit_affine(x, kOnes.data(), 15, true).min, 0.0F);
    EXPECT_GE(fit_affine(x, kOnes.data(), 15, true).scale, 0.0F);
  }
}

TEST(FitAffine, ConstantValuesNeedNoScale) {
  const std::vector<float> x(32, -0.7F);
  EXPECT_EQ(fit_affine(x, kOnes.data(), 15, true).scale, 0.0F);
  EXPECT_EQ(fit_affine(x, kOnes.data(), 15, true).min, -0.7F);
  EXPECT_EQ(fit_affine(std::vector<float>(32, 0.7F), kOnes.data(), 15, false).min, 0.7F);
}

TEST(Iq4Levels, CodeIsTheNearestLevel) {
  for (int tenth = -1400; tenth <= 1300; ++tenth) {
    const float v = static_cast<float>(tenth) / 10.0F;
    const float distance = std::fabs(v - Iq4Levels{}.nearest(v));
    for (const int8_t level : kIq4Values) {
      ASSERT_LE(distance, std::fabs(v - static_cast<float>(level)));
    }
  }
}

}  // namespace
}  // namespace fathom
