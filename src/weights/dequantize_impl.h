// Private to dequantize*.cpp: one function per block format.
#pragma once

#include "weights/blocks.h"

namespace fathom {

// out: as many values as the block holds.
void dequantize_block(const BlockQ4_0& block, float* out) noexcept;
void dequantize_block(const BlockQ4_1& block, float* out) noexcept;
void dequantize_block(const BlockQ5_0& block, float* out) noexcept;
void dequantize_block(const BlockQ5_1& block, float* out) noexcept;
void dequantize_block(const BlockQ8_0& block, float* out) noexcept;
void dequantize_block(const BlockMXFP4& block, float* out) noexcept;

void dequantize_block(const BlockQ2_K& block, float* out) noexcept;
void dequantize_block(const BlockQ3_K& block, float* out) noexcept;
void dequantize_block(const BlockQ4_K& block, float* out) noexcept;
void dequantize_block(const BlockQ5_K& block, float* out) noexcept;
void dequantize_block(const BlockQ6_K& block, float* out) noexcept;

void dequantize_block(const BlockIQ1_S& block, float* out) noexcept;
void dequantize_block(const BlockIQ1_M& block, float* out) noexcept;
void dequantize_block(const BlockIQ2_XXS& block, float* out) noexcept;
void dequantize_block(const BlockIQ2_XS& block, float* out) noexcept;
void dequantize_block(const BlockIQ2_S& block, float* out) noexcept;
void dequantize_block(const BlockIQ3_XXS& block, float* out) noexcept;
void dequantize_block(const BlockIQ3_S& block, float* out) noexcept;
void dequantize_block(const BlockIQ4_NL& block, float* out) noexcept;
void dequantize_block(const BlockIQ4_XS& block, float* out) noexcept;

}  // namespace fathom
