// Cache formats on the vectors of the vec_*.h that is included before. The portable meaning is in
// core/activation_sim.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/isa/vec_math.h"

namespace fathom::cpu {
namespace {

constexpr int kFp8Values = 64;  // that share a scale
constexpr int kFp4Values = 32;
constexpr int32_t kMagnitude = 0x7FFFFFFF;
constexpr int32_t kSignBit = -0x7FFFFFFF - 1;
constexpr uint8_t kNanScale = 0xFF;

inline float float_of(uint32_t bit_pattern) {
  float f = 0.0F;
  __builtin_memcpy(&f, &bit_pattern, sizeof f);
  return f;
}
inline uint32_t bits_of(float f) {
  uint32_t b = 0;
  __builtin_memcpy(&b, &f, sizeof b);
  return b;
}

inline float scale_value(uint8_t e8m0) {
  if (e8m0 == kNanScale) {
    return float_of(0x7FC00000U);
  }
  return float_of(e8m0 == 0 ? 0x00400000U : static_cast<uint32_t>(e8m0) << 23);
}

// Scale code of a group: the smallest power of two that brings its largest magnitude within `limit`. Magnitudes compare
// as integers, so that a NaN is larger than anything.
inline uint8_t group_scale(const float* x, int n, float floor, float limit) {
  I32 largest = set1(static_cast<int32_t>(bits_of(floor)));
  for_each_vector(n, [&](int i, int lanes) { largest = max(largest, bits(load(x + i, lanes)) & set1(kMagnitude)); });
  largest = max(largest, bits(swap<8>(from_bits(largest))));
  largest = max(largest, bits(swap<4>(from_bits(largest))));
  largest = max(largest, bits(swap<2>(from_bits(largest))));
  largest = max(largest, bits(swap<1>(from_bits(largest))));
  const uint32_t t = bits_of(first_lane(from_bits(largest)) * (1.0F / limit));
  const uint32_t code = (t >> 23) + ((t & 0x007FFFFFU) != 0 ? 1U : 0U);
  return static_cast<uint8_t>(code < kNanScale ? code : kNanScale);
}
inline uint8_t fp8_scale(const float* x, int n) { return group_scale(x, n, 1e-4F, 448.0F); }
inline uint8_t fp4_scale(const float* x, int n) { return group_scale(x, n, 6.0F * 0x1p-126F, 6.0F); }

// --- E4M3 ----------------------------------------------------------------------------------------------------------

constexpr int32_t kE4M3Normal = 0x3C800000;   // 2^-6
constexpr int32_t kE4M3Largest = 0x43E00000;  // 448

// Nearest E4M3 value of finite |t| <= 480, as the bits of its magnitude.
inline I32 e4m3_magnitude(I32 magnitude) {
  const I32 odd = shift_right<20>(magnitude) & set1(1);
  const I32 normal = (magnitude + set1(0x0007FFFF) + odd) & set1(~0x000FFFFF);
  const F32 rounding = set1(0x1.8p14F);  // adding it rounds to multiples of 2^-9
  const I32 small = bits((from_bits(magnitude) + rounding) - rounding);
  const I32 rounded = select_less(magnitude, set1(kE4M3Normal), small, normal);
  return select_less(set1(kE4M3Largest), rounded, set1(kE4M3Largest), rounded);
}

inline I32 e4m3_code(I32 magnitude, I32 sign) {
  const I32 normal = shift_right<20>(magnitude - set1(120 << 23));
  const I32 small = to_int(from_bits(magnitude) * set1(512.0F));
  return select_less(magnitude, set1(kE4M3Normal), small, normal) | shift_right<24>(sign);
}

inline F32 e4m3_value(I32 code) {
  const I32 magnitude = code & set1(0x7F);
  const F32 normal = from_bits(shift_left<20>(magnitude) + set1(120 << 23));
  const F32 small = to_float(magnitude) * set1(0x1p-9F);
  const I32 chosen = select_less(magnitude, set1(8), bits(small), bits(normal));
  const I32 finite = select_less(magnitude, set1(0x7F), chosen, set1(0x7FC00000));
  return from_bits(finite | shift_left<24>(code & set1(0x80)));
}

// --- E2M1 ----------------------------------------------------------------------------------------------------------

// Nearest E2M1 value of |t|, as the bits of its magnitude.
inline I32 e2m1_magnitude(I32 magnitude) {
  const I32 odd = shift_right<22>(magnitude) & set1(1);
  const I32 normal = (magnitude + set1(0x001FFFFF) + odd) & set1(~0x003FFFFF);
  const F32 rounding = set1(0x1.8p22F);  // adding it rounds to multiples of 1/2
  const I32 small = bits((from_bits(magnitude) + rounding) - rounding);
  const I32 rounded = select_less(magnitude, set1(0x3F800000), small, normal);
  const I32 largest = set1(0x40C00000);  // 6
  return select_less(largest, rounded, largest, rounded);
}

}  // namespace
}  // namespace fathom::cpu
