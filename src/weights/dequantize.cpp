#include "weights/dequantize.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/scalar.h"
#include "weights/dequantize_impl.h"

namespace fathom {
namespace {

template <class Stored, class Convert>
void convert_values(const std::byte* row, float* out, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = convert(load_block<Stored>(row, i));
  }
}

template <class Block>
void decode_blocks(const std::byte* row, float* out, int64_t n, int block_size) {
  for (int64_t i = 0; i < n / block_size; ++i) {
    dequantize_block(load_block<Block>(row, i), out + i * block_size);
  }
}

// Negative zero becomes zero, so that a repack as MXFP4 changes no bit of any value.
void decode_e2m1(const std::byte* row, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = e2m1_to_f32(std::to_integer<uint8_t>(row[i / 2] >> (i % 2 * 4))) + 0.0F;
  }
}

void apply_scales(const Weight& weight, const std::byte* scales, int row, float* out) {
  FATHOM_DCHECK(scales != nullptr && weight.scale_rows > 0 && weight.scale_cols > 0,
                "FP8 or FP4 weight without scales");
  const int per_row = (weight.in_dim + weight.scale_cols - 1) / weight.scale_cols;
  const std::byte* row_scales = scales + static_cast<ptrdiff_t>(row / weight.scale_rows) * per_row;
  for (int block = 0; block < per_row; ++block) {
    const float scale = e8m0_to_f32(std::to_integer<uint8_t>(row_scales[block]));
    const int end = std::min(weight.in_dim, (block + 1) * weight.scale_cols);
    for (int i = block * weight.scale_cols; i < end; ++i) {
      out[i] *= scale;
    }
  }
}

}  // namespace

void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t n) noexcept {
  FATHOM_DCHECK(n % dtype_info(dtype).block_size == 0, "a row is a whole number of blocks");
  switch (dtype) {
    case DType::kF32:
      return convert_values<float>(row, out, n, [](float v) { return v; });
    case DType::kF16:
      return convert_values<uint16_t>(row, out, n, f16_to_f32);
    case DType::kBF16:
      return convert_values<uint16_t>(row, out, n, bf16_to_f32);
    case DType::kI32:
      return convert_values<int32_t>(row, out, n, [](int32_t v) { return static_cast<float>(v); });
    case DType::kI64:
      return convert_values<int64_t>(row, out, n, [](int64_t v) { return static_cast<float>(v); });
    case DType::kF8_E4M3:
      return convert_values<uint8_t>(row, out, n, e4m3_to_f32);
    case DType::kF4_E2M1:
      return decode_e2m1(row, out, n);
    case DType::kQ4_0:
      return decode_blocks<BlockQ4_0>(row, out, n, kBlock);
    case DType::kQ4_1:
      return decode_blocks<BlockQ4_1>(row, out, n, kBlock);
    case DType::kQ5_0:
      return decode_blocks<BlockQ5_0>(row, out, n, kBlock);
    case DType::kQ5_1:
      return decode_blocks<BlockQ5_1>(row, out, n, kBlock);
    case DType::kQ8_0:
      return decode_blocks<BlockQ8_0>(row, out, n, kBlock);
    case DType::kMXFP4:
      return decode_blocks<BlockMXFP4>(row, out, n, kBlock);
    case DType::kQ2_K:
      return decode_blocks<BlockQ2_K>(row, out, n, kSuperBlock);
    case DType::kQ3_K:
      return decode_blocks<BlockQ3_K>(row, out, n, kSuperBlock);
    case DType::kQ4_K:
      return decode_blocks<BlockQ4_K>(row, out, n, kSuperBlock);
    case DType::kQ5_K:
      return decode_blocks<BlockQ5_K>(row, out, n, kSuperBlock);
    case DType::kQ6_K:
      return decode_blocks<BlockQ6_K>(row, out, n, kSuperBlock);
    case DType::kIQ1_S:
      return decode_blocks<BlockIQ1_S>(row, out, n, kSuperBlock);
    case DType::kIQ1_M:
      return decode_blocks<BlockIQ1_M>(row, out, n, kSuperBlock);
    case DType::kIQ2_XXS:
      return decode_blocks<BlockIQ2_XXS>(row, out, n, kSuperBlock);
    case DType::kIQ2_XS:
      return decode_blocks<BlockIQ2_XS>(row, out, n, kSuperBlock);
    case DType::kIQ2_S:
      return decode_blocks<BlockIQ2_S>(row, out, n, kSuperBlock);
    case DType::kIQ3_XXS:
      return decode_blocks<BlockIQ3_XXS>(row, out, n, kSuperBlock);
    case DType::kIQ3_S:
      return decode_blocks<BlockIQ3_S>(row, out, n, kSuperBlock);
    case DType::kIQ4_NL:
      return decode_blocks<BlockIQ4_NL>(row, out, n, kBlock);
    case DType::kIQ4_XS:
      return decode_blocks<BlockIQ4_XS>(row, out, n, kSuperBlock);
  }
  FATHOM_CHECK(false, "not a DType");
}

void dequantize_row(const Weight& weight, int slice, int row, float* out) noexcept {
  FATHOM_DCHECK(slice >= 0 && slice < weight.count() && row >= 0 && row < weight.out_dim, "row out of range");
  const WeightSlice& part = weight.slices[static_cast<size_t>(slice)];
  const size_t row_bytes = dtype_row_bytes(weight.dtype, weight.in_dim);
  dequantize_row(weight.dtype, part.codes + static_cast<size_t>(row) * row_bytes, out, weight.in_dim);
  if (weight.dtype == DType::kF8_E4M3 || weight.dtype == DType::kF4_E2M1) {
    apply_scales(weight, part.scales, row, out);
  }
}

}  // namespace fathom
