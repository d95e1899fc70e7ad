#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/scalar.h"
#include "quant/quantize.h"
#include "support/expect_error.h"
#include "support/random_blocks.h"
#include "support/random_values.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

using test::normal_values;

// A matrix encoded with scales, and its decoded values.
struct Encoded {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<float> values;
};

Encoded encode(DType dtype, const std::vector<float>& x, int rows, int cols, int scale_rows, int scale_cols) {
  Encoded e;
  const auto ceil_div = [](int a, int b) { return static_cast<size_t>((a + b - 1) / b); };
  e.codes.resize(static_cast<size_t>(rows) * dtype_row_bytes(dtype, cols));
  e.scales.resize(ceil_div(rows, scale_rows) * ceil_div(cols, scale_cols));
  e.values.resize(x.size());
  quantize_scaled(dtype, HostMat<const float>(x.data(), rows, cols), scale_rows, scale_cols, e.codes.data(),
                  e.scales.data());
  const WeightSlice slice{e.codes.data(), e.scales.data()};
  const Weight weight{"w", dtype, rows, cols, scale_rows, scale_cols, {&slice, 1}, nullptr};
  for (int r = 0; r < rows; ++r) {
    dequantize_row(weight, 0, r, e.values.data() + static_cast<ptrdiff_t>(r) * cols);
  }
  return e;
}

TEST(QuantizeScaled, Fp8ErrorIsAtMostHalfAStepAndNothingIsClipped) {
  const int rows = 130;
  const int cols = 200;  // two by two tiles of 128, all but one of them partial
  const std::vector<float> x = normal_values(static_cast<size_t>(rows * cols), 1, 0.02F);
  const Encoded e = encode(DType::kF8_E4M3, x, rows, cols, 128, 128);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) {
      const auto i = static_cast<size_t>(r * cols + c);
      const float scale = e8m0_to_f32(std::to_integer<uint8_t>(e.scales[static_cast<size_t>(r / 128 * 2 + c / 128)]));
      // Four significant bits; below the smallest normal number steps of 2^-9.
      const float bound = std::max(std::fabs(x[i]) * 0x1p-4F, scale * 0x1p-10F);
      ASSERT_LE(std::fabs(e.values[i] - x[i]), bound) << r << "," << c;
    }
  }
}

TEST(QuantizeScaled, ScaleIsTheSmallestThatDoesNotClip) {
  const std::vector<float> x = {448.0F, 1.0F, 449.0F, 1.0F, 0.0F, 0.0F};
  const Encoded e = encode(DType::kF8_E4M3, x, 1, 6, 1, 2);
  EXPECT_EQ(e.scales[0], std::byte{127});
  EXPECT_EQ(e.scales[1], std::byte{128});
  EXPECT_EQ(e.values[4], 0.0F);
  EXPECT_FALSE(std::isnan(e.values[5]));
}

TEST(QuantizeScaled, EncodingDecodedValuesChangesNoValue) {
  for (const auto& [dtype, scale_rows, scale_cols] :
       {std::tuple{DType::kF8_E4M3, 128, 128}, std::tuple{DType::kF4_E2M1, 1, 32}, std::tuple{DType::kF8_E4M3, 3, 7}}) {
    const std::vector<float> x = normal_values(size_t{7} * 96, 2, 3.0F);
    const Encoded once = encode(dtype, x, 7, 96, scale_rows, scale_cols);
    const Encoded twice = encode(dtype, once.values, 7, 96, scale_rows, scale_cols);
    EXPECT_EQ(twice.values, once.values);
  }
}

TEST(QuantizeScaled, Fp4ValuesAreTheNearestLevels) {
  const std::vector<float> x = normal_values(64, 3);
  const Encoded e = encode(DType::kF4_E2M1, x, 1, 64, 1, 32);
  for (size_t i = 0; i < x.size(); ++i) {
    const float scale = e8m0_to_f32(std::to_integer<uint8_t>(e.scales[i / 32]));
    for (const float level : kE2M1Values) {
      EXPECT_LE(std::fabs(e.values[i] - x[i]), std::fabs(level * scale - x[i])) << i;
    }
  }
}

TEST(QuantizeScaled, TinyAndHugeTilesKeepFiniteScales) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = 0x1p127F;
  for (const DType dtype : {DType::kF8_E4M3, DType::kF4_E2M1}) {
    const Encoded e = encode(dtype, {tiny, -tiny, huge, -huge}, 1, 4, 1, 2);
    for (const float v : e.values) {
      EXPECT_TRUE(std::isfinite(v));
    }
    EXPECT_EQ(e.values[2], huge);
  }
}

TEST(QuantizeScaled, RejectsWhatATypeCannotHold) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 2e38F}) {
    const std::vector<float> x = {0.0F, 1.0F, 2.0F, bad};
    EXPECT_ERROR(encode(DType::kF8_E4M3, x, 2, 2, 2, 2), ErrorCode::kBadModel, "value [1, 1] of the matrix is");
    EXPECT_ERROR(encode(DType::kF4_E2M1, x, 2, 2, 1, 2), ErrorCode::kBadModel,
                 "F4_E2M1 encodes finite values up to 1.70141e+38");
  }
}

// --- MXFP4 -----------------------------------------------------------------------------------------------------------

double mxfp4_error(const std::vector<float>& x, const std::vector<float>& w, int code) {
  double error = 0;
  const float scale = e8m0_to_f32(static_cast<uint8_t>(code));
  for (size_t j = 0; j < x.size(); ++j) {
    const double difference =
        static_cast<double>(x[j]) - static_cast<double>(e2m1_to_f32(f32_to_e2m1(x[j] / scale))) * scale;
    error += w[j] * difference * difference;
  }
  return error;
}

TEST(QuantizeMxfp4, ChoosesTheBestOfAllScales) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::vector<float> x = normal_values(32, seed);
    x[0] *= seed % 3 == 0 ? 8.0F : 1.0F;
    std::vector<float> w(32, 1.0F);
    if (seed % 2 == 1) {
      w = normal_values(32, seed + 1000);
      std::transform(w.begin(), w.end(), w.begin(), [](float v) { return v * v; });
    }
    std::vector<std::byte> block(17);
    quantize_row(DType::kMXFP4, x.data(), block.data(), 32, w);
    double best = std::numeric_limits<double>::infinity();
    for (int code = 100; code < 150; ++code) {
      best = std::min(best, mxfp4_error(x, w, code));
    }
    const double error = mxfp4_error(x, w, std::to_integer<int>(block[0]));
    // The encoder adds a thousandth of the mean importance to each weight.
    EXPECT_LE(error, best * 1.01) << seed;
  }
}

TEST(QuantizeMxfp4, RepackedFp4KeepsEveryBitOfEveryValue) {
  const int64_t n = 64 * 32;
  std::vector<std::byte> codes = test::random_blocks(DType::kF4_E2M1, static_cast<size_t>(n / 2), 1);
  std::vector<std::byte> scales(static_cast<size_t>(n / 32));
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = std::byte{static_cast<uint8_t>(i < 3 ? i : 255 - i)};
  }
  scales[3] = std::byte{127};
  const WeightSlice slice{codes.data(), scales.data()};
  const Weight weight{"w", DType::kF4_E2M1, 1, static_cast<int>(n), 1, 32, {&slice, 1}, nullptr};
  std::vector<float> expected(static_cast<size_t>(n));
  dequantize_row(weight, 0, 0, expected.data());

  std::vector<std::byte> blocks(dtype_row_bytes(DType::kMXFP4, n));
  repack_f4_as_mxfp4(codes.data(), scales.data(), blocks.data(), n);
  std::vector<float> values(static_cast<size_t>(n));
  dequantize_row(DType::kMXFP4, blocks.data(), values.data(), n);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i])) << i;
  }
}

TEST(QuantizeMxfp4, RepackPairsValuesThatAreSixteenApart) {
  std::vector<std::byte> codes(16);
  for (int j = 0; j < 16; ++j) {
    codes[static_cast<size_t>(j)] = static_cast<std::byte>((2 * j & 0xF) | ((2 * j + 1) & 0xF) << 4);
  }
  const std::byte scale{120};
  std::vector<std::byte> block(17);
  repack_f4_as_mxfp4(codes.data(), &scale, block.data(), 32);
  EXPECT_EQ(block[0], std::byte{120});
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(block[static_cast<size_t>(j) + 1], static_cast<std::byte>(j | j << 4));
  }
}

}  // namespace
}  // namespace fathom
