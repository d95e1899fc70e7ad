#include "weights/k_scales.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

// Values that differ between neighbours and reach both ends.
int some_scale(int s, int round) { return (s * 37 + round * 11 + 63) % 64; }

TEST(KScales, EightScalesAndMinsSurviveThePacking) {
  for (int round = 0; round < 64; ++round) {
    uint8_t packed[12] = {};
    for (int s = 0; s < 8; ++s) {
      set_k_scale_min(packed, s, {some_scale(s, round), some_scale(s + 8, round)});
    }
    for (int s = 0; s < 8; ++s) {
      EXPECT_EQ(k_scale_min(packed, s).scale, some_scale(s, round)) << s;
      EXPECT_EQ(k_scale_min(packed, s).min, some_scale(s + 8, round)) << s;
    }
  }
}

TEST(KScales, SixteenSignedScalesSurviveThePacking) {
  for (int round = 0; round < 64; ++round) {
    uint8_t packed[12] = {};
    for (int s = 0; s < 16; ++s) {
      set_q3_k_scale(packed, s, some_scale(s, round) - 32);
    }
    for (int s = 0; s < 16; ++s) {
      EXPECT_EQ(q3_k_scale(packed, s), some_scale(s, round) - 32) << s;
    }
  }
}

}  // namespace
}  // namespace fathom
