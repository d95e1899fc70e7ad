#include "core/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace fathom {
namespace {

TEST(DType, TableIsIndexedByTheEnumerator) {
  size_t index = 0;
  for (const DTypeInfo& info : all_dtypes()) {
    EXPECT_EQ(static_cast<size_t>(info.dtype), index);
    EXPECT_EQ(&dtype_info(info.dtype), &info);
    ++index;
  }
  EXPECT_EQ(index, static_cast<size_t>(DType::kF4_E2M1) + 1);
}

TEST(DType, GgmlNumbersAreDistinctAndRoundTrip) {
  std::set<int> numbers;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.ggml_type < 0) {
      continue;
    }
    EXPECT_TRUE(numbers.insert(info.ggml_type).second) << info.name;
    EXPECT_EQ(dtype_from_ggml(static_cast<uint32_t>(info.ggml_type)), info.dtype) << info.name;
  }
  EXPECT_EQ(dtype_from_ggml(9), std::nullopt);  // Q8_1, an activation format
  EXPECT_EQ(dtype_from_ggml(UINT32_MAX), std::nullopt);
}

TEST(DType, NamesRoundTripInAnyCase) {
  for (const DTypeInfo& info : all_dtypes()) {
    EXPECT_EQ(dtype_from_name(info.name), info.dtype);
  }
  EXPECT_EQ(dtype_from_name("q4_k"), DType::kQ4_K);
  EXPECT_EQ(dtype_from_name("bf16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("Q4_K_M"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, OnlyPlainFloatsAreFloat) {
  std::set<std::string> floats;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.is_float) {
      floats.emplace(info.name);
    }
  }
  EXPECT_EQ(floats, (std::set<std::string>{"F32", "F16", "BF16"}));
}

TEST(DType, RowBytesCountBlocks) {
  EXPECT_EQ(dtype_row_bytes(DType::kF32, 3), 12U);
  EXPECT_EQ(dtype_row_bytes(DType::kQ8_0, 64), 68U);
  EXPECT_EQ(dtype_row_bytes(DType::kQ4_K, 512), 288U);
  EXPECT_EQ(dtype_row_bytes(DType::kMXFP4, 4096), 2176U);
  EXPECT_EQ(dtype_row_bytes(DType::kF4_E2M1, 4096), 2048U);
  EXPECT_EQ(dtype_row_bytes(DType::kQ6_K, 0), 0U);
}

// Bits per weight are the published ones of each format.
TEST(DType, BlocksHaveTheBitsPerWeightOfTheirFormat) {
  const auto bits = [](DType t) { return 8.0 * static_cast<double>(dtype_row_bytes(t, 256)) / 256.0; };
  EXPECT_EQ(bits(DType::kQ8_0), 8.5);
  EXPECT_EQ(bits(DType::kQ6_K), 6.5625);
  EXPECT_EQ(bits(DType::kQ5_1), 6.0);
  EXPECT_EQ(bits(DType::kQ4_K), 4.5);
  EXPECT_EQ(bits(DType::kIQ4_XS), 4.25);
  EXPECT_EQ(bits(DType::kMXFP4), 4.25);
  EXPECT_EQ(bits(DType::kQ3_K), 3.4375);
  EXPECT_EQ(bits(DType::kQ2_K), 2.625);
  EXPECT_EQ(bits(DType::kIQ2_XXS), 2.0625);
  EXPECT_EQ(bits(DType::kIQ1_M), 1.75);
  EXPECT_EQ(bits(DType::kIQ1_S), 1.5625);
}

}  // namespace
}  // namespace fathom
