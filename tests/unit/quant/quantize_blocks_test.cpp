// Properties that hold for the encoder of every block format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "quant/quantize.h"
#include "support/random_values.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

using test::normal_values;

std::vector<DTypeInfo> block_types() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.ggml_type >= 0 && info.block_size > 1) {
      types.push_back(info);
    }
  }
  return types;
}

class QuantizeBlocks : public testing::TestWithParam<DTypeInfo> {
 protected:
  [[nodiscard]] static DType dtype() { return GetParam().dtype; }

  [[nodiscard]] static std::vector<std::byte> encode(const std::vector<float>& x,
                                                     std::span<const float> importance = {}) {
    std::vector<std::byte> bytes(dtype_row_bytes(dtype(), static_cast<int64_t>(x.size())));
    quantize_row(dtype(), x.data(), bytes.data(), static_cast<int64_t>(x.size()), importance);
    return bytes;
  }

  [[nodiscard]] static std::vector<float> round_trip(const std::vector<float>& x,
                                                     std::span<const float> importance = {}) {
    const std::vector<std::byte> bytes = encode(x, importance);
    std::vector<float> y(x.size());
    dequantize_row(dtype(), bytes.data(), y.data(), static_cast<int64_t>(y.size()));
    return y;
  }
};

double squared_error(const std::vector<float>& x, const std::vector<float>& y, std::span<const float> w = {}) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = static_cast<double>(x[i]) - y[i];
    sum += (w.empty() ? 1.0 : w[i]) * difference * difference;
  }
  return sum;
}

double energy(const std::vector<float>& x) { return squared_error(x, std::vector<float>(x.size(), 0.0F)); }

// Distortion of the best scalar quantiser (Lloyd-Max) of 1 to 6 bits for a normal distribution of variance 1. A format
// that spends that many bits on a value, and more on scales, must not be worse.
double lloyd_max_distortion(DType dtype) {
  static const std::map<int, double> kDistortion = {{1, 0.3634},   {2, 0.1175},   {3, 0.03454},
                                                    {4, 0.009497}, {5, 0.002499}, {6, 0.000651}};
  switch (dtype) {
    case DType::kIQ1_S:
    case DType::kIQ1_M:
      return kDistortion.at(1);
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kQ2_K:
      return kDistortion.at(2);
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kQ3_K:
    case DType::kMXFP4:  // of its four bits, the power-of-two scale wastes a part
      return kDistortion.at(3);
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return kDistortion.at(5);
    case DType::kQ6_K:
    case DType::kQ8_0:
      return kDistortion.at(6);
    default:
      return kDistortion.at(4);
  }
}

TEST_P(QuantizeBlocks, IsNoWorseThanTheBestScalarQuantiserOfItsBits) {
  for (const float sigma : {0.02F, 1.0F, 300.0F}) {
    const std::vector<float> x = normal_values(8192, 1, sigma);
    EXPECT_LT(squared_error(x, round_trip(x)) / energy(x), lloyd_max_distortion(dtype())) << sigma;
  }
}

TEST_P(QuantizeBlocks, EncodingDecodedValuesChangesLittleOrNothing) {
  const std::vector<float> x = normal_values(8192, 2, 0.02F);
  const std::vector<float> once = round_trip(x);
  const std::vector<float> twice = round_trip(once);
  const DTypeInfo& info = GetParam();
  if (info.block_size == 32) {
    EXPECT_EQ(twice, once);  // one scale (and minimum): found again exactly
  } else {
    EXPECT_LE(squared_error(once, twice), 0.03 * squared_error(x, once));
  }
}

TEST_P(QuantizeBlocks, ImportanceLowersTheErrorItWeighs) {
  const std::vector<float> x = normal_values(8192, 3);
  std::vector<float> importance = normal_values(x.size(), 4);
  for (float& v : importance) {
    v = v * v * v * v;
  }
  const double weighted = squared_error(x, round_trip(x, importance), importance);
  const double plain = squared_error(x, round_trip(x), importance);
  if (dtype() == DType::kQ8_0) {
    EXPECT_EQ(weighted, plain);
  } else {
    EXPECT_LT(weighted, plain);
  }
}

TEST_P(QuantizeBlocks, OnlyRatiosOfImportanceMatterAndZeroMeansNone) {
  const std::vector<float> x = normal_values(1024, 5);
  const std::vector<std::byte> plain = encode(x);
  EXPECT_EQ(encode(x, std::vector<float>(x.size(), 0.0F)), plain);
  std::vector<float> importance = normal_values(x.size(), 6);
  std::vector<float> scaled = importance;
  for (size_t i = 0; i < x.size(); ++i) {
    importance[i] *= importance[i];
    scaled[i] = importance[i] * 1024.0F;
  }
  EXPECT_EQ(encode(x, scaled), encode(x, importance));
}

TEST_P(QuantizeBlocks, BlocksDoNotInfluenceEachOther) {
  const std::vector<float> x = normal_values(1024, 7);
  const std::vector<std::byte> together = encode(x);
  std::vector<std::byte> apart;
  for (size_t first = 0; first < x.size(); first += 256) {
    const std::vector<std::byte> part =
        encode({x.begin() + static_cast<ptrdiff_t>(first), x.begin() + static_cast<ptrdiff_t>(first) + 256});
    apart.insert(apart.end(), part.begin(), part.end());
  }
  EXPECT_EQ(together, apart);
}

TEST_P(QuantizeBlocks, ZerosDecodeToZeros) {
  for (const float v : round_trip(std::vector<float>(512, 0.0F))) {
    ASSERT_EQ(v, 0.0F);
  }
  std::vector<float> half(512, 0.0F);
  std::fill(half.begin(), half.begin() + 256, -0.0F);
  for (const float v : round_trip(half)) {
    ASSERT_EQ(v, 0.0F);
  }
}

TEST_P(QuantizeBlocks, ExtremeMagnitudesStayFiniteAndClose) {
  for (const float magnitude : {65504.0F, 1e-3F}) {
    std::vector<float> x(512, magnitude);
    for (size_t i = 0; i < x.size(); i += 3) {
      x[i] = -magnitude;
    }
    const std::vector<float> y = round_trip(x);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(std::isfinite(y[i])) << i;
    }
    EXPECT_LT(squared_error(x, y) / energy(x), 0.4) << magnitude;
  }
  // Too small for any F16 scale, or for all but the smallest: never larger than twice what was there.
  for (const float magnitude : {1e-12F, 3e-8F, 1e-6F}) {
    for (const float v : round_trip(std::vector<float>(512, magnitude))) {
      ASSERT_LE(std::fabs(v), 2.0F * magnitude + 0x1p-24F) << magnitude;
    }
  }
}

TEST_P(QuantizeBlocks, OneLargeValueKeepsItsSignAndMostOfItsEnergy) {
  for (const float large : {-30.0F, 30.0F}) {
    std::vector<float> x(256, 0.01F);
    x[100] = large;
    const std::vector<float> y = round_trip(x);
    EXPECT_EQ(std::signbit(y[100]), std::signbit(large));
    // IQ1 can hardly do it: its neighbours get at least an eighth of the scale each.
    EXPECT_LT(squared_error(x, y), 0.75 * energy(x)) << large;
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, QuantizeBlocks, testing::ValuesIn(block_types()),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

// --- Formats with a minimum
// --------------------------------------------------------------------------------------------

double shifted_distortion(DType dtype, float shift) {
  std::vector<float> x = normal_values(8192, 8);
  const double variance = energy(x);
  for (float& v : x) {
    v += shift;
  }
  std::vector<std::byte> bytes(dtype_row_bytes(dtype, 8192));
  std::vector<float> y(x.size());
  quantize_row(dtype, x.data(), bytes.data(), 8192);
  dequantize_row(dtype, bytes.data(), y.data(), 8192);
  return squared_error(x, y) / variance;
}

TEST(QuantizeMinimum, ShiftedValuesAreEncodedAsWell) {
  EXPECT_LT(shifted_distortion(DType::kQ4_1, 5.0F), lloyd_max_distortion(DType::kQ4_1));
  EXPECT_LT(shifted_distortion(DType::kQ4_1, -5.0F), lloyd_max_distortion(DType::kQ4_1));
  EXPECT_LT(shifted_distortion(DType::kQ5_1, 5.0F), lloyd_max_distortion(DType::kQ5_1));
  // K formats store the magnitude of a negative minimum only.
  EXPECT_LT(shifted_distortion(DType::kQ4_K, -5.0F), lloyd_max_distortion(DType::kQ4_K));
  EXPECT_LT(shifted_distortion(DType::kQ2_K, -2.0F), lloyd_max_distortion(DType::kQ2_K));
}

}  // namespace
}  // namespace fathom
