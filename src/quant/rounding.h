// Rounding of scaled values to integer codes.
#pragma once

#include <algorithm>

namespace fathom {

// The nearest integer between lo and hi, ties to even. Adding and subtracting 1.5 * 2^23 rounds at the unit digit;
// unlike std::nearbyint it needs no call. Precondition: |lo|, |hi| <= 2^22; a NaN gives lo.
[[nodiscard]] inline int round_to_code(float v, int lo, int hi) {
  constexpr float kUnitDigit = 0x1.8p23F;
  const float low = static_cast<float>(lo);
  const float high = static_cast<float>(hi);
  const float clamped = v > low ? std::min(v, high) : low;
  return static_cast<int>((clamped + kUnitDigit) - kUnitDigit);
}

// 1 / d, or 0 so that every value gets the code of zero.
[[nodiscard]] inline float inverse_or_zero(float d) { return d != 0.0F ? 1.0F / d : 0.0F; }

}  // namespace fathom
