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

}  // namespace
}  // namespace fathom
