#include "quant/transcode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "quant/quantize.h"
#include "support/expect_error.h"
#include "support/owned_weight.h"
#include "support/random_values.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

// A weight of two experts with scales held apart; owns its bytes.
class ScaledWeight {
 public:
  ScaledWeight(DType dtype, int out, int in, int scale_rows, int scale_cols) {
    const auto n = static_cast<size_t>(out) * static_cast<size_t>(in);
    const int blocks = ((out + scale_rows - 1) / scale_rows) * ((in + scale_cols - 1) / scale_cols);
    for (size_t expert = 0; expert < 2; ++expert) {
      std::vector<float> x = test::normal_values(n, static_cast<uint32_t>(expert) + 1);
      codes_[expert].resize(dtype_row_bytes(dtype, in) * static_cast<size_t>(out));
      scales_[expert].resize(static_cast<size_t>(blocks));
      quantize_scaled(dtype, HostMat<const float>(x.data(), out, in), scale_rows, scale_cols, codes_[expert].data(),
                      scales_[expert].data());
      slices_[expert] = {codes_[expert].data(), scales_[expert].data()};
    }
    weight_ = {.name = "blk.3.ffn_up_exps.weight",
               .dtype = dtype,
               .out_dim = out,
               .in_dim = in,
               .scale_rows = scale_rows,
               .scale_cols = scale_cols,
               .slices = slices_};
  }
  ScaledWeight(const ScaledWeight&) = delete;
  ScaledWeight& operator=(const ScaledWeight&) = delete;

  [[nodiscard]] const Weight& weight() const { return weight_; }
  std::vector<std::byte>& scales(size_t expert) { return scales_[expert]; }

 private:
  std::array<std::vector<std::byte>, 2> codes_;
  std::array<std::vector<std::byte>, 2> scales_;
  std::array<WeightSlice, 2> slices_;
  Weight weight_;
};

std::vector<std::byte> transcode_all(const Weight& weight, DType target, int threads = 2) {
  ThreadPool pool({.threads = threads});
  std::vector<std::byte> bytes;
  transcode(weight, target, pool,
            [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  EXPECT_EQ(bytes.size(), transcoded_bytes(weight, target));
  return bytes;
}

std::vector<float> values_of(const Weight& weight) {
  const auto cols = static_cast<size_t>(weight.in_dim);
  std::vector<float> values(cols * static_cast<size_t>(weight.out_dim) * static_cast<size_t>(weight.count()));
  float* at = values.data();
  for (int slice = 0; slice < weight.count(); ++slice) {
    for (int row = 0; row < weight.out_dim; ++row, at += cols) {
      dequantize_row(weight, slice, row, at);
    }
  }
  return values;
}

std::vector<float> values_of(const std::vector<std::byte>& bytes, DType dtype, size_t n) {
  std::vector<float> values(n);
  dequantize_row(dtype, bytes.data(), values.data(), static_cast<int64_t>(n));
  return values;
}

TEST(Transcode, Fp4BecomesMxfp4WithoutChangingAValue) {
  const ScaledWeight source(DType::kF4_E2M1, 5, 96, 1, 32);
  const std::vector<float> expected = values_of(source.weight());
  EXPECT_EQ(values_of(transcode_all(source.weight(), DType::kMXFP4), DType::kMXFP4, expected.size()), expected);
}

TEST(Transcode, Fp8BecomesBf16AndF32WithoutChangingAValue) {
  const ScaledWeight source(DType::kF8_E4M3, 130, 160, 128, 128);
  const std::vector<float> expected = values_of(source.weight());
  for (const DType target : {DType::kBF16, DType::kF32}) {
    EXPECT_EQ(values_of(transcode_all(source.weight(), target), target, expected.size()), expected);
  }
}

TEST(Transcode, SameTypeIsCopiedByteForByte) {
  const std::vector<float> x = test::normal_values(6 * 8, 1);
  const test::OwnedWeight source("w", 3, 8, x);  // two experts
  const std::vector<std::byte> bytes = transcode_all(source.weight(), DType::kF32);
  ASSERT_EQ(bytes.size(), x.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), x.data(), bytes.size()), 0);
}

TEST(Transcode, PiecesAreBoundedAndThreadsDoNotMatter) {
  const test::OwnedWeight source("w", 4001, 512, test::normal_values(4001 * 512, 1));
  ThreadPool pool({.threads = 3});
  size_t largest = 0;
  transcode(source.weight(), DType::kF16, pool,
            [&](std::span<const std::byte> piece) { largest = std::max(largest, piece.size()); });
  EXPECT_LE(largest, size_t{4} << 20);
  EXPECT_EQ(transcode_all(source.weight(), DType::kQ8_0, 1), transcode_all(source.weight(), DType::kQ8_0, 3));
}

TEST(Transcode, NamesTheValueThatHasNoPlace) {
  std::vector<float> x(2 * 3 * 32, 1.0F);
  x[(3 + 2) * 32 + 7] = std::numeric_limits<float>::quiet_NaN();
  const test::OwnedWeight source("blk.0.ffn_up_exps.weight", 3, 32, x);
  EXPECT_ERROR(transcode_all(source.weight(), DType::kQ8_0), ErrorCode::kBadModel,
               "blk.0.ffn_up_exps.weight: expert 1, row 2: ");

  const test::OwnedWeight large("output.weight", 1, 2, std::vector<float>{0.0F, 1e5F});
  EXPECT_ERROR(transcode_all(large.weight(), DType::kF16), ErrorCode::kBadModel, "output.weight: row 0: ");
}

TEST(Transcode, RejectsScalesThatAreNaN) {
  ScaledWeight source(DType::kF4_E2M1, 2, 32, 1, 32);
  source.scales(1)[1] = std::byte{0xff};
  EXPECT_ERROR(transcode_all(source.weight(), DType::kMXFP4), ErrorCode::kBadModel, "blk.3.ffn_up_exps.weight");
}

}  // namespace
}  // namespace fathom
