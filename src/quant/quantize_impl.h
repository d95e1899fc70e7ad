// Private to quantize*.cpp: one function per block format.
#pragma once

#include "weights/blocks.h"

namespace fathom {

// Largest magnitude that formats with power-of-two scales encode: greater ones might round up to infinity.
inline constexpr float kPowerOfTwoScaledMax = 0x1p127F;

// x: the block's values, finite, and at most 65504 in magnitude where a scale is F16. w: a positive weight for each.
void quantize_block(const float* x, const float* w, BlockQ4_0& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ4_1& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ5_0& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ5_1& block) noexcept;
void quantize_block(const float* x, const float* w, BlockQ8_0& block) noexcept;
void quantize_block(const float* x, const float* w, BlockMXFP4& block) noexcept;

}  // namespace fathom
