// Private to quantize*.cpp: one function per block format.
#pragma once

#include "weights/blocks.h"

namespace fathom {

// Largest magnitude that formats with power-of-two scales encode: greater ones might round up to infinity.
inline constexpr float kPowerOfTwoScaledMax = 0x1p127F;

// x: the block's values, finite, and at most 65504 in magnitude where a scale is F16. w: a positive weight for each.
// `block` is all zeros before.
void quantize_block(const float* x, const float* w, BlockQ4_0& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ4_1& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ5_0& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ5_1& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ8_0& block) noexcept;
void quantize_block(const float* x, const float* w, BlockMXFP4& block) noexcept;

void quantize_block(const float* x, const float* w, BlockQ2_K& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ3_K& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ4_K& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ5_K& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ6_K& block) noexcept;

void quantize_block(const float* x, const float* w, BlockIQ1_S& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ1_M& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ2_XXS& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ2_XS& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ2_S& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ3_XXS& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ3_S& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ4_NL& block) noexcept;
void quantize_block(const float* x, const float* w, BlockIQ4_XS& block) noexcept;

}  // namespace fathom
