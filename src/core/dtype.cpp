#include "core/dtype.h"

#include <array>

#include "core/check.h"

namespace fathom {
namespace {

constexpr int kNotInGguf = -1;

// In the order of DType, so that an enumerator is an index.
constexpr std::array kDTypes = {
    DTypeInfo{DType::kF32, "F32", 1, 4, 0, true},
    DTypeInfo{DType::kF16, "F16", 1, 2, 1, true},
    DTypeInfo{DType::kBF16, "BF16", 1, 2, 30, true},
    DTypeInfo{DType::kI32, "I32", 1, 4, 26, false},
    DTypeInfo{DType::kI64, "I64", 1, 8, 27, false},
    DTypeInfo{DType::kQ4_0, "Q4_0", 32, 18, 2, false},
    DTypeInfo{DType::kQ4_1, "Q4_1", 32, 20, 3, false},
    DTypeInfo{DType::kQ5_0, "Q5_0", 32, 22, 6, false},
    DTypeInfo{DType::kQ5_1, "Q5_1", 32, 24, 7, false},
    DTypeInfo{DType::kQ8_0, "Q8_0", 32, 34, 8, false},
    DTypeInfo{DType::kQ2_K, "Q2_K", 256, 84, 10, false},
    DTypeInfo{DType::kQ3_K, "Q3_K", 256, 110, 11, false},
    DTypeInfo{DType::kQ4_K, "Q4_K", 256, 144, 12, false},
    DTypeInfo{DType::kQ5_K, "Q5_K", 256, 176, 13, false},
    DTypeInfo{DType::kQ6_K, "Q6_K", 256, 210, 14, false},
    DTypeInfo{DType::kIQ1_S, "IQ1_S", 256, 50, 19, false},
    DTypeInfo{DType::kIQ1_M, "IQ1_M", 256, 56, 29, false},
    DTypeInfo{DType::kIQ2_XXS, "IQ2_XXS", 256, 66, 16, false},
    DTypeInfo{DType::kIQ2_XS, "IQ2_XS", 256, 74, 17, false},
    DTypeInfo{DType::kIQ2_S, "IQ2_S", 256, 82, 22, false},
    DTypeInfo{DType::kIQ3_XXS, "IQ3_XXS", 256, 98, 18, false},
    DTypeInfo{DType::kIQ3_S, "IQ3_S", 256, 110, 21, false},
    DTypeInfo{DType::kIQ4_NL, "IQ4_NL", 32, 18, 20, false},
    DTypeInfo{DType::kIQ4_XS, "IQ4_XS", 256, 136, 23, false},
    DTypeInfo{DType::kMXFP4, "MXFP4", 32, 17, 39, false},
    DTypeInfo{DType::kF8_E4M3, "F8_E4M3", 1, 1, kNotInGguf, false},
    DTypeInfo{DType::kF4_E2M1, "F4_E2M1", 2, 1, kNotInGguf, false},
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<size_t>(kDTypes[i].dtype) != i) {
      return false;
    }
  }
  return true;
}
static_assert(in_enum_order());

constexpr char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (to_upper(a[i]) != to_upper(b[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace

const DTypeInfo& dtype_info(DType dtype) noexcept {
  const auto index = static_cast<size_t>(dtype);
  FATHOM_CHECK(index < kDTypes.size(), "not a DType");
  return kDTypes[index];
}

std::span<const DTypeInfo> all_dtypes() noexcept { return kDTypes; }

std::optional<DType> dtype_from_ggml(uint32_t ggml_type) noexcept {
  for (const DTypeInfo& info : kDTypes) {
    if (info.ggml_type != kNotInGguf && static_cast<uint32_t>(info.ggml_type) == ggml_type) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const DTypeInfo& info : kDTypes) {
    if (equal_ignoring_case(info.name, name)) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

size_t dtype_row_bytes(DType dtype, int64_t n) noexcept {
  const DTypeInfo& info = dtype_info(dtype);
  FATHOM_DCHECK(n >= 0 && n % info.block_size == 0, "a row is a whole number of blocks");
  return static_cast<size_t>(n / info.block_size) * static_cast<size_t>(info.block_bytes);
}

}  // namespace fathom
