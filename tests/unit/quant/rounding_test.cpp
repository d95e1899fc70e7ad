#include "quant/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fathom {
namespace {

TEST(RoundToCode, RoundsToNearestTiesToEvenWithinTheLimits) {
  for (int quarter = -600; quarter <= 600; ++quarter) {
    const float v = static_cast<float>(quarter) / 4.0F;
    EXPECT_EQ(round_to_code(v, -127, 100), std::clamp(static_cast<int>(std::nearbyint(v)), -127, 100)) << v;
  }
}

TEST(RoundToCode, HandlesValuesFarOutside) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(round_to_code(inf, -8, 7), 7);
  EXPECT_EQ(round_to_code(-inf, -8, 7), -8);
  EXPECT_EQ(round_to_code(3e38F, 0, 63), 63);
  EXPECT_EQ(round_to_code(std::numeric_limits<float>::quiet_NaN(), -8, 7), -8);
}

}  // namespace
}  // namespace fathom
