// Element types of weights. Names are GGUF's; the last two occur only in official safetensors files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace fathom {

using TokenId = int32_t;

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kI32,
  kI64,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kF8_E4M3,  // one byte an element; E8M0 scales over blocks, held apart (Weight::scale_rows x scale_cols)
  kF4_E2M1,  // two elements a byte, low nibble first; E8M0 scale per 32 columns, held apart
};

// Static facts of a type. A row of n elements takes n / block_size * block_bytes bytes; n must divide.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  // "Q4_K"
  int block_size;         // elements
  int block_bytes;
  int ggml_type;  // GGUF type number, -1 when the type does not exist in GGUF
  bool is_float;  // F32, F16 or BF16: what "any float type" means to a reader
};

[[nodiscard]] const DTypeInfo& dtype_info(DType dtype) noexcept;
[[nodiscard]] std::span<const DTypeInfo> all_dtypes() noexcept;
[[nodiscard]] std::optional<DType> dtype_from_ggml(uint32_t ggml_type) noexcept;
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name) noexcept;  // case-insensitive

// Bytes of `n` consecutive elements. Precondition: n is a multiple of the block size.
[[nodiscard]] size_t dtype_row_bytes(DType dtype, int64_t n) noexcept;

}  // namespace fathom
