#include "core/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace fathom {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Value of a code of a small float format, straight from its definition, in double precision.
double defined_value(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1U << mantissa_bits) - 1U);
  const uint32_t exponent = (code >> mantissa_bits) & ((1U << exponent_bits) - 1U);
  const bool negative = ((code >> (mantissa_bits + exponent_bits)) & 1U) != 0;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -magnitude : magnitude;
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Checks round-to-nearest-even around every pair of neighbouring non-negative finite codes lo, lo + 1: the midpoint,
// and the float32 values next to it on both sides. `decode` must be exact, and midpoints representable in float32.
void expect_ties_and_neighbours(uint32_t largest_code, uint32_t sign_bit, const std::function<float(uint32_t)>& decode,
                                const std::function<uint32_t(float)>& encode) {
  for (uint32_t lo = 0; lo < largest_code; ++lo) {
    const float a = decode(lo);
    const float b = decode(lo + 1);
    const auto middle = static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
    const uint32_t even = (lo % 2 == 0) ? lo : lo + 1;
    ASSERT_EQ(encode(middle), even) << lo;
    ASSERT_EQ(encode(std::nextafter(middle, 0.0F)), lo);
    ASSERT_EQ(encode(std::nextafter(middle, kInf)), lo + 1);
    if (sign_bit != 0) {
      ASSERT_EQ(encode(-middle), sign_bit | even) << lo;
      ASSERT_EQ(encode(-std::nextafter(middle, 0.0F)), sign_bit | lo);
      ASSERT_EQ(encode(-std::nextafter(middle, kInf)), sign_bit | (lo + 1));
    }
  }
}

TEST(ScalarF16, EveryCodeHasItsDefinedValueAndSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = f16_to_f32(static_cast<uint16_t>(code));
    const uint32_t magnitude = code & 0x7FFFU;
    if (magnitude > 0x7C00) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_EQ(f32_to_f16(value), code | 0x200U);  // quiet, payload kept
      continue;
    }
    if (magnitude == 0x7C00) {
      ASSERT_EQ(value, code == 0x7C00 ? kInf : -kInf);
    } else {
      ASSERT_EQ(static_cast<double>(value), defined_value(code, 5, 10, 15)) << code;
      ASSERT_EQ(std::signbit(value), code >= 0x8000);
    }
    ASSERT_EQ(f32_to_f16(value), code);
  }
}

TEST(ScalarF16, RoundsTiesToEvenAndNeighboursToNearest) {
  const auto decode = [](uint32_t c) { return f16_to_f32(static_cast<uint16_t>(c)); };
  expect_ties_and_neighbours(0x7BFF, 0x8000, decode, [](float v) -> uint32_t { return f32_to_f16(v); });
}

TEST(ScalarF16, OverflowsToInfinityFromHalfAStepBeyondTheLargest) {
  EXPECT_EQ(f32_to_f16(65504.0F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-1e30F), 0xFC00);
  EXPECT_EQ(f32_to_f16(kInf), 0x7C00);
  EXPECT_EQ(f32_to_f16(-kInf), 0xFC00);
  EXPECT_EQ(f32_to_f16(kNan), 0x7E00);
  EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

// The compiler's own half precision type as an independent opinion.
TEST(ScalarF16, AgreesWithTheCompilersHalfPrecisionType) {
#if defined(__FLT16_MANT_DIG__) && !defined(__clang__)
  const auto agrees = [](uint32_t pattern) {
    const auto value = std::bit_cast<float>(pattern);
    const auto expected = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    return std::isnan(value) ||
           (f32_to_f16(value) == expected &&
            same_bits(f16_to_f32(expected), static_cast<float>(std::bit_cast<_Float16>(expected))));
  };
  // A stride that meets every exponent with many mantissas, both signs; then every tie among normal numbers (and every
  // other pattern whose lower 12 bits are zero) with its neighbours.
  for (uint64_t pattern = 0; pattern <= 0xFFFFFFFFU; pattern += 977) {
    ASSERT_TRUE(agrees(static_cast<uint32_t>(pattern))) << std::hex << pattern;
  }
  for (uint64_t pattern = 0; pattern <= 0xFFFFFFFFU; pattern += 0x1000) {
    for (const uint32_t step : {0U, 1U, 0xFFFFFFFFU}) {
      ASSERT_TRUE(agrees(static_cast<uint32_t>(pattern) + step)) << std::hex << pattern;
    }
  }
#else
  GTEST_SKIP() << "this compiler has no _Float16 for this machine";
#endif
}

TEST(ScalarBF16, EveryCodeIsTheUpperHalfOfAFloatAndSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = bf16_to_f32(static_cast<uint16_t>(code));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), code << 16);
    ASSERT_EQ(f32_to_bf16(value), std::isnan(value) ? (code | 0x40U) : code);
  }
}

TEST(ScalarBF16, RoundsTiesToEvenAndNeighboursToNearest) {
  const auto decode = [](uint32_t c) { return bf16_to_f32(static_cast<uint16_t>(c)); };
  expect_ties_and_neighbours(0x7F7F, 0x8000, decode, [](float v) -> uint32_t { return f32_to_bf16(v); });
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7F800001U)), 0x7FC0);  // a NaN whose payload lies in the lost half
}

TEST(ScalarE4M3, EveryCodeHasItsDefinedValueAndSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = e4m3_to_f32(static_cast<uint8_t>(code));
    if ((code & 0x7FU) == 0x7F) {
      ASSERT_TRUE(std::isnan(value));
    } else {
      ASSERT_EQ(static_cast<double>(value), defined_value(code, 4, 3, 7)) << code;
      ASSERT_EQ(std::signbit(value), code >= 128);
    }
    ASSERT_EQ(f32_to_e4m3(value, Overflow::kNan), code);
    ASSERT_EQ(f32_to_e4m3(value, Overflow::kSaturate), code);
  }
  EXPECT_EQ(e4m3_to_f32(0x7E), kE4M3Max);
  EXPECT_EQ(e4m3_to_f32(0x01), 0x1p-9F);
}

TEST(ScalarE4M3, RoundsTiesToEvenAndNeighboursToNearest) {
  const auto decode = [](uint32_t c) { return e4m3_to_f32(static_cast<uint8_t>(c)); };
  expect_ties_and_neighbours(0x7E, 0x80, decode, [](float v) -> uint32_t { return f32_to_e4m3(v, Overflow::kNan); });
  expect_ties_and_neighbours(0x7E, 0x80, decode,
                             [](float v) -> uint32_t { return f32_to_e4m3(v, Overflow::kSaturate); });
}

TEST(ScalarE4M3, BeyondTheLargestSaturatesOrGivesNanAsAsked) {
  for (const float value : {464.0F, 448.0F, 463.9F}) {
    EXPECT_EQ(f32_to_e4m3(value, Overflow::kNan), 0x7E) << value;
    EXPECT_EQ(f32_to_e4m3(-value, Overflow::kSaturate), 0xFE) << value;
  }
  for (const float value : {std::nextafter(464.0F, kInf), 480.0F, 1e38F, kInf}) {
    EXPECT_EQ(f32_to_e4m3(value, Overflow::kNan), 0x7F) << value;
    EXPECT_EQ(f32_to_e4m3(-value, Overflow::kNan), 0xFF) << value;
    EXPECT_EQ(f32_to_e4m3(value, Overflow::kSaturate), 0x7E) << value;
    EXPECT_EQ(f32_to_e4m3(-value, Overflow::kSaturate), 0xFE) << value;
  }
  EXPECT_EQ(f32_to_e4m3(kNan, Overflow::kSaturate), 0x7F);
  EXPECT_EQ(f32_to_e4m3(-0.0F), 0x80);
}

TEST(ScalarE8M0, EveryCodeIsAPowerOfTwoAndSurvivesTheRoundTrip) {
  for (int code = 0; code < 255; ++code) {
    const float value = e8m0_to_f32(static_cast<uint8_t>(code));
    ASSERT_EQ(static_cast<double>(value), std::ldexp(1.0, code - 127));
    ASSERT_EQ(f32_to_e8m0(value), code);
  }
  EXPECT_TRUE(std::isnan(e8m0_to_f32(0xFF)));
  EXPECT_EQ(f32_to_e8m0(kNan), 0xFF);
}

TEST(ScalarE8M0, RoundsTiesToEvenAndNeighboursToNearest) {
  const auto decode = [](uint32_t c) { return e8m0_to_f32(static_cast<uint8_t>(c)); };
  expect_ties_and_neighbours(0xFE, 0, decode, [](float v) -> uint32_t { return f32_to_e8m0(v); });
}

TEST(ScalarE8M0, ValuesWithoutACodeGiveNanAndTinyOnesTheSmallest) {
  EXPECT_EQ(f32_to_e8m0(0.0F), 0);
  EXPECT_EQ(f32_to_e8m0(-0.0F), 0);
  EXPECT_EQ(f32_to_e8m0(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_e8m0(0x1.8p127F), 0xFE);
  EXPECT_EQ(f32_to_e8m0(std::nextafter(0x1.8p127F, kInf)), 0xFF);
  EXPECT_EQ(f32_to_e8m0(kInf), 0xFF);
  EXPECT_EQ(f32_to_e8m0(-1.0F), 0xFF);
  EXPECT_EQ(f32_to_e8m0(-std::numeric_limits<float>::denorm_min()), 0xFF);
}

TEST(ScalarE2M1, EveryCodeHasItsDefinedValueAndSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 16; ++code) {
    const float value = e2m1_to_f32(static_cast<uint8_t>(code));
    ASSERT_EQ(static_cast<double>(value), defined_value(code, 2, 1, 1)) << code;
    ASSERT_EQ(std::signbit(value), code >= 8);
    ASSERT_EQ(f32_to_e2m1(value), code);
    ASSERT_TRUE(same_bits(e2m1_to_f32(static_cast<uint8_t>(code | 0xF0U)), value));
  }
}

TEST(ScalarE2M1, RoundsTiesToEvenAndNeighboursToNearest) {
  const auto decode = [](uint32_t c) { return e2m1_to_f32(static_cast<uint8_t>(c)); };
  expect_ties_and_neighbours(7, 8, decode, [](float v) -> uint32_t { return f32_to_e2m1(v); });
  // The ties as the specification lists them.
  const std::vector<std::pair<float, float>> ties = {{0.25F, 0.0F}, {0.75F, 1.0F}, {1.25F, 1.0F}, {1.75F, 2.0F},
                                                     {2.5F, 2.0F},  {3.5F, 4.0F},  {5.0F, 4.0F}};
  for (const auto& [value, rounded] : ties) {
    EXPECT_EQ(e2m1_to_f32(f32_to_e2m1(value)), rounded) << value;
    EXPECT_EQ(e2m1_to_f32(f32_to_e2m1(-value)), -rounded) << value;
  }
}

TEST(ScalarE2M1, Saturates) {
  for (const float value : {6.0F, 6.9F, 7.0F, 100.0F, kInf}) {
    EXPECT_EQ(f32_to_e2m1(value), 7) << value;
    EXPECT_EQ(f32_to_e2m1(-value), 15) << value;
  }
  EXPECT_EQ(f32_to_e2m1(kNan), 7);
  EXPECT_EQ(f32_to_e2m1(-kNan), 7);
}

TEST(Scalar, ConversionsWorkAtCompileTime) {
  static_assert(f16_to_f32(0x3C00) == 1.0F && f32_to_f16(1.0F) == 0x3C00);
  static_assert(bf16_to_f32(0x3F80) == 1.0F && f32_to_bf16(1.0F) == 0x3F80);
  static_assert(e4m3_to_f32(0x38) == 1.0F && f32_to_e4m3(1.0F) == 0x38);
  static_assert(e8m0_to_f32(127) == 1.0F && f32_to_e8m0(1.0F) == 127);
  static_assert(e2m1_to_f32(2) == 1.0F && f32_to_e2m1(1.0F) == 2);
}

}  // namespace
}  // namespace fathom
