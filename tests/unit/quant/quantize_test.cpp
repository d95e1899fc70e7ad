#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/scalar.h"
#include "support/expect_error.h"
#include "support/random_values.h"
#include "weights/blocks.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

using test::normal_values;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> round_trip(DType dtype, const std::vector<float>& x, std::span<const float> importance = {}) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<std::byte> bytes(dtype_row_bytes(dtype, n));
  std::vector<float> out(x.size());
  quantize_row(dtype, x.data(), bytes.data(), n, importance);
  dequantize_row(dtype, bytes.data(), out.data(), n);
  return out;
}

TEST(Quantize, PlainFloatsRoundToNearest) {
  const std::vector<float> x = normal_values(1000, 1, 100.0F);
  EXPECT_EQ(round_trip(DType::kF32, x), x);
  const std::vector<float> f16 = round_trip(DType::kF16, x);
  const std::vector<float> bf16 = round_trip(DType::kBF16, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(f16[i], f16_to_f32(f32_to_f16(x[i])));
    EXPECT_EQ(bf16[i], bf16_to_f32(f32_to_bf16(x[i])));
  }
}

TEST(Quantize, F32KeepsEvenWhatIsNotFinite) {
  const std::vector<float> out = round_trip(DType::kF32, {kNan, -kInf});
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], -kInf);
}

TEST(Quantize, IntegersAreExact) {
  const std::vector<float> x = {0.0F, -1.0F, 129279.0F, -0x1p31F};
  EXPECT_EQ(round_trip(DType::kI32, x), x);
  EXPECT_EQ(round_trip(DType::kI64, {0x1p62F, -0x1p63F}), (std::vector{0x1p62F, -0x1p63F}));
}

TEST(Quantize, IntegersRejectEverythingElse) {
  EXPECT_ERROR(round_trip(DType::kI32, {0.0F, 1.5F}), ErrorCode::kBadModel,
               "value 1 of the row is 1.5: I32 encodes integers from -2147483648 to 2147483647");
  EXPECT_ERROR(round_trip(DType::kI32, {0x1p31F}), ErrorCode::kBadModel, "I32 encodes integers");
  EXPECT_ERROR(round_trip(DType::kI64, {0x1p63F}), ErrorCode::kBadModel, "I64 encodes integers");
  EXPECT_ERROR(round_trip(DType::kI64, {kNan}), ErrorCode::kBadModel, "value 0 of the row is nan");
}

TEST(Quantize, RejectsWhatATypeCannotHold) {
  for (const float bad : {kNan, kInf, -kInf, 65536.0F, -1e10F}) {
    std::vector<float> x(32, 1.0F);
    x[5] = bad;
    EXPECT_ERROR(round_trip(DType::kQ8_0, x), ErrorCode::kBadModel, "value 5 of the row is");
    EXPECT_ERROR(round_trip(DType::kF16, x), ErrorCode::kBadModel, "F16 encodes finite values up to 65504");
  }
  for (const float bad : {kNan, kInf}) {
    std::vector<float> x(32, 1.0F);
    x[31] = bad;
    EXPECT_ERROR(round_trip(DType::kBF16, x), ErrorCode::kBadModel, "BF16 encodes finite values up to 3.38953e+38");
    EXPECT_ERROR(round_trip(DType::kMXFP4, x), ErrorCode::kBadModel, "MXFP4 encodes finite values up to 1.70141e+38");
  }
  EXPECT_ERROR(round_trip(DType::kBF16, {std::numeric_limits<float>::max()}), ErrorCode::kBadModel, "BF16 encodes");
}

// |x - y| is at most half a step, or what the largest code leaves over: the scale is rounded to F16 before it is used.
TEST(Quantize, Q8ErrorIsAtMostHalfAStep) {
  for (const float sigma : {1e-3F, 1.0F, 1e4F}) {
    const std::vector<float> x = normal_values(4096, 2, sigma);
    std::vector<std::byte> bytes(dtype_row_bytes(DType::kQ8_0, 4096));
    std::vector<float> y(x.size());
    quantize_row(DType::kQ8_0, x.data(), bytes.data(), 4096);
    dequantize_row(DType::kQ8_0, bytes.data(), y.data(), 4096);
    for (size_t i = 0; i < x.size(); ++i) {
      const float step = f16_to_f32(load_block<BlockQ8_0>(bytes.data(), static_cast<int64_t>(i / 32)).d);
      ASSERT_LE(std::fabs(x[i] - y[i]), std::max(step * 0.5F * 1.0001F, std::fabs(x[i]) - 127.0F * step)) << i;
    }
  }
}

TEST(Quantize, EncodingDecodedPlainFloatsChangesNoValue) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const std::vector<float> once = round_trip(dtype, normal_values(4096, 4, 1.0F));
    EXPECT_EQ(round_trip(dtype, once), once) << dtype_info(dtype).name;
  }
}

TEST(Quantize, SubnormalScalesDoNotOverflowTheCodes) {
  std::vector<float> x(32, 1e-6F);
  x[0] = -1.0e-5F;  // 1.32 of the smallest F16 steps: the scale rounds down and the code would be -168
  const std::vector<float> y = round_trip(DType::kQ8_0, x);
  EXPECT_EQ(y[0], -127.0F * 0x1p-24F);
}

}  // namespace
}  // namespace fathom
