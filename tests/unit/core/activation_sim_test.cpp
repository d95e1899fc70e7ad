#include "core/activation_sim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/scalar.h"

namespace fathom {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> fp8_simulated(std::vector<float> x) {
  fp8_simulate(x);
  return x;
}

std::vector<float> fp4_simulated(std::vector<float> x) {
  fp4_simulate(x);
  return x;
}

std::vector<float> random_values(size_t n, uint32_t seed, int min_exponent, int max_exponent) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> mantissa(-1.0F, 1.0F);
  std::uniform_int_distribution<int> exponent(min_exponent, max_exponent);
  std::vector<float> x(n);
  for (float& v : x) {
    v = std::ldexp(mantissa(rng), exponent(rng));
  }
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}

// docs/model.md section 13, items 3 and 4.
TEST(ActivationSim, Fp8MatchesTheSpecificationsVectors) {
  EXPECT_EQ(e8m0_to_f32(fp8_group_scale(std::vector{3.7F})), 0x1p-6F);
  EXPECT_EQ(fp8_simulated({1.2345F, -3.7F, 0.0101F}), (std::vector{1.25F, -3.75F, 0.009765625F}));
  EXPECT_EQ(e8m0_to_f32(fp8_group_scale(std::vector{448.0F})), 1.0F);
  EXPECT_EQ(fp8_simulated({447.0F, 448.0F}), (std::vector{448.0F, 448.0F}));
  EXPECT_EQ(e8m0_to_f32(fp8_group_scale(std::vector{-449.0F})), 2.0F);
  EXPECT_EQ(fp8_simulated({449.0F}), (std::vector{448.0F}));
  EXPECT_EQ(e8m0_to_f32(fp8_group_scale(std::vector{1e-5F})), 0x1p-22F);
  EXPECT_FLOAT_EQ(fp8_simulated({1e-5F})[0], 9.5367432e-6F);
}

TEST(ActivationSim, Fp4MatchesTheSpecificationsVectors) {
  EXPECT_EQ(e8m0_to_f32(fp4_group_scale(std::vector{2.9F})), 0.5F);
  EXPECT_EQ(fp4_simulated({1.3F, 2.9F})[0], 1.5F);
  EXPECT_EQ(e8m0_to_f32(fp4_group_scale(std::vector{3.0F})), 0.5F);
  EXPECT_EQ(fp4_simulated({2.2F, -3.0F})[0], 2.0F);
  EXPECT_EQ(e8m0_to_f32(fp4_group_scale(std::vector{-3.1F})), 1.0F);
  EXPECT_EQ(fp4_simulated({-3.1F}), (std::vector{-3.0F}));
}

TEST(ActivationSim, ScaleStepsExactlyAtTheLargestValueTimesAPowerOfTwo) {
  for (int e = -20; e < 100; ++e) {
    for (const float largest : {kE4M3Max, kE2M1Max}) {
      const float edge = std::ldexp(largest, e);
      EXPECT_EQ(power_of_two_scale(edge, largest), e + 127);
      EXPECT_EQ(power_of_two_scale(edge * 1.0001F, largest), e + 128);
      EXPECT_EQ(power_of_two_scale(edge * 0.9999F, largest), e + 127);
    }
  }
}

TEST(ActivationSim, TinyGroupsUseTheFloor) {
  EXPECT_EQ(fp8_group_scale(std::vector{0.0F, -0.0F}), 127 - 22);
  EXPECT_EQ(fp4_group_scale(std::vector{0.0F, -0.0F}), 1);
  EXPECT_EQ(fp4_group_scale(std::vector{std::numeric_limits<float>::denorm_min()}), 1);
  EXPECT_TRUE(same_bits(fp8_simulated({0.0F, -0.0F}), {0.0F, -0.0F}));
  EXPECT_TRUE(same_bits(fp4_simulated({0.0F, -0.0F}), {0.0F, -0.0F}));
}

TEST(ActivationSim, HugeFiniteValuesKeepAFiniteScale) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(fp8_simulated({largest}), (std::vector{std::ldexp(256.0F, 120)}));
  EXPECT_EQ(fp4_simulated({-largest}), (std::vector{-std::ldexp(4.0F, 126)}));
}

TEST(ActivationSim, GroupWithNanOrInfinityBecomesNanAndSparesTheOthers) {
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const size_t place : {size_t{0}, size_t{31}}) {
      std::vector<float> x(3 * kFp8Group, 1.0F);
      x[kFp8Group + place] = bad;
      std::vector<float> y = x;
      fp8_simulate(x);
      fp4_simulate(y);
      EXPECT_EQ(x[kFp8Group - 1], 1.0F);
      EXPECT_TRUE(std::isnan(x[kFp8Group]) && std::isnan(x[2 * kFp8Group - 1]));
      EXPECT_EQ(x[2 * kFp8Group], 1.0F);
      EXPECT_EQ(y[kFp8Group - 1], 1.0F);
      EXPECT_TRUE(std::isnan(y[kFp8Group]) && std::isnan(y[kFp8Group + kFp4Group - 1]));
      EXPECT_EQ(y[kFp8Group + kFp4Group], 1.0F);
    }
  }
}

// The nearest code by exhaustive search in double precision; of two equally near ones the even code.
float nearest_by_search(float value, int n_codes, float (*decode)(uint8_t)) {
  int best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < n_codes; ++code) {
    const double distance = std::fabs(static_cast<double>(std::fabs(value)) - decode(static_cast<uint8_t>(code)));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return std::copysign(decode(static_cast<uint8_t>(best)), value);
}

TEST(ActivationSim, EveryValueGoesToTheNearestCode) {
  const std::vector<float> x = random_values(64 * 64 + 17, 1, -12, 6);
  const std::vector<float> fp8 = fp8_simulated(x);
  const std::vector<float> fp4 = fp4_simulated(x);
  const auto scale_of = [&x](size_t i, size_t group, auto scale) {
    const size_t first = i / group * group;
    return e8m0_to_f32(scale(std::span(x).subspan(first, std::min(group, x.size() - first))));
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const float s8 = scale_of(i, kFp8Group, fp8_group_scale);
    const float s4 = scale_of(i, kFp4Group, fp4_group_scale);
    ASSERT_EQ(fp8[i], nearest_by_search(x[i] / s8, 0x7F, e4m3_to_f32) * s8) << i;
    ASSERT_EQ(fp4[i], nearest_by_search(x[i] / s4, 8, e2m1_to_f32) * s4) << i;
  }
}

TEST(ActivationSim, SimulatingTwiceChangesNothing) {
  for (const int spread : {0, 3, 20}) {
    const std::vector<float> x = random_values(4096 + 5, 7, -spread, spread);
    const std::vector<float> fp8 = fp8_simulated(x);
    const std::vector<float> fp4 = fp4_simulated(x);
    EXPECT_TRUE(same_bits(fp8_simulated(fp8), fp8)) << spread;
    EXPECT_TRUE(same_bits(fp4_simulated(fp4), fp4)) << spread;
  }
}

TEST(ActivationSim, SimulatedValuesAreExactInBf16) {
  for (const float v : fp8_simulated(random_values(4096, 3, -30, 30))) {
    ASSERT_EQ(bf16_to_f32(f32_to_bf16(v)), v);
  }
  for (const float v : fp4_simulated(random_values(4096, 4, -30, 30))) {
    ASSERT_EQ(bf16_to_f32(f32_to_bf16(v)), v);
  }
}

TEST(ActivationSim, CodesAndScalesDecodeToTheSimulatedValues) {
  for (const size_t n : {size_t{1}, size_t{24}, size_t{31}, size_t{64}, size_t{97}, size_t{448}}) {
    const std::vector<float> x = random_values(n, static_cast<uint32_t>(n), -6, 6);
    std::vector<float> decoded(n);

    std::vector<std::byte> codes(n);
    std::vector<std::byte> scales(static_cast<size_t>(group_count(static_cast<int>(n), kFp8Group)));
    fp8_quantize(x, codes, scales);
    fp8_dequantize(codes, scales, decoded);
    EXPECT_TRUE(same_bits(decoded, fp8_simulated(x))) << n;

    codes.assign((n + 1) / 2, std::byte{0xFF});
    scales.resize(static_cast<size_t>(group_count(static_cast<int>(n), kFp4Group)));
    fp4_quantize(x, codes, scales);
    fp4_dequantize(codes, scales, decoded);
    EXPECT_TRUE(same_bits(decoded, fp4_simulated(x))) << n;
  }
}

TEST(ActivationSim, Fp4CodesLieLowNibbleFirst) {
  std::vector<std::byte> codes(2);
  std::vector<std::byte> scales(1);
  fp4_quantize(std::vector{0.5F, -6.0F, 3.0F}, codes, scales);
  EXPECT_EQ(codes, (std::vector{std::byte{0xF1}, std::byte{0x05}}));
  EXPECT_EQ(scales, (std::vector{std::byte{127}}));
}

// docs/model.md section 13, item 6.
TEST(Hadamard, MatchesTheSpecificationsVectors) {
  std::vector<float> unit(128, 0.0F);
  unit[5] = 1.0F;
  hadamard(unit);
  const std::vector<int> signs = {1, -1, 1, -1, -1, 1, -1, 1, 1, -1, 1, -1, -1, 1, -1, 1};
  for (size_t i = 0; i < signs.size(); ++i) {
    EXPECT_FLOAT_EQ(unit[i], static_cast<float>(signs[i] / std::sqrt(128.0))) << i;
  }

  std::vector<float> ramp(128);
  for (size_t i = 0; i < ramp.size(); ++i) {
    ramp[i] = static_cast<float>(i) / 128.0F;
  }
  hadamard(ramp);
  EXPECT_NEAR(ramp[0], 5.612660, 1e-6);
  EXPECT_NEAR(ramp[1], -0.044194, 1e-6);
  EXPECT_NEAR(ramp[2], -0.088388, 1e-6);
  EXPECT_NEAR(ramp[3], 0.0, 1e-6);
  EXPECT_NEAR(ramp[4], -0.176777, 1e-6);
  EXPECT_NEAR(ramp[64], -2.828427, 1e-6);
  EXPECT_NEAR(ramp[127], 0.0, 1e-6);
}

TEST(Hadamard, EntriesFollowTheParityOfTheCommonBits) {
  for (const size_t n : {size_t{1}, size_t{2}, size_t{8}, size_t{32}}) {
    for (size_t column = 0; column < n; ++column) {
      std::vector<float> x(n, 0.0F);
      x[column] = 1.0F;
      hadamard(x);
      for (size_t row = 0; row < n; ++row) {
        const double sign = std::popcount(row & column) % 2 == 0 ? 1.0 : -1.0;
        ASSERT_EQ(x[row], static_cast<float>(sign / std::sqrt(static_cast<double>(n))));
      }
    }
  }
}

TEST(Hadamard, PaddingKeepsDotProducts) {
  const int n = 24;
  std::vector<float> q = random_values(n, 11, 0, 0);
  std::vector<float> k = random_values(n, 12, 0, 0);
  double before = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    before += static_cast<double>(q[i]) * k[i];
  }
  ASSERT_EQ(hadamard_size(n), 32);
  q.resize(32, 0.0F);
  k.resize(32, 0.0F);
  hadamard(q);
  hadamard(k);
  double after = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    after += static_cast<double>(q[i]) * k[i];
  }
  EXPECT_NEAR(after, before, 1e-5);
}

TEST(Hadamard, SizeIsTheNextPowerOfTwo) {
  EXPECT_EQ(hadamard_size(1), 1);
  EXPECT_EQ(hadamard_size(128), 128);
  EXPECT_EQ(hadamard_size(129), 256);
}

}  // namespace
}  // namespace fathom
