// exp and silu of one float, by operations that every instruction set has, so that all give the same bits.
#pragma once

#include <cstdint>

namespace fathom::cpu {

// exp(x) = 2^n * exp(r), |r| <= ln 2 / 2, a polynomial of degree 6; relative error under 3e-7. Results below 2^-126 are
// 0.
inline constexpr float kExpLow = -87.3F;
inline constexpr float kExpHigh = 88.3F;
inline constexpr float kLog2E = 0x1.715476p0F;
inline constexpr float kLn2High = 0x1.62e4p-1F;
inline constexpr float kLn2Low = 0x1.7f7d1cp-20F;
inline constexpr float kRound = 0x1.8p23F;
inline constexpr float kExpC[5] = {0x1.6c16c2p-10F, 0x1.111112p-7F, 0x1.555556p-5F, 0x1.555556p-3F, 0x1p-1F};

static inline float exp_scalar(float x) {
  const float low = x < kExpLow ? 0.0F : 1.0F;
  x = x < kExpLow ? kExpLow : x;
  x = x > kExpHigh ? kExpHigh : x;
  const float n = __builtin_fmaf(x, kLog2E, kRound) - kRound;
  float r = __builtin_fmaf(n, -kLn2High, x);
  r = __builtin_fmaf(n, -kLn2Low, r);
  float p = kExpC[0];
  p = __builtin_fmaf(p, r, kExpC[1]);
  p = __builtin_fmaf(p, r, kExpC[2]);
  p = __builtin_fmaf(p, r, kExpC[3]);
  p = __builtin_fmaf(p, r, kExpC[4]);
  p = __builtin_fmaf(p, r, 1.0F);
  p = __builtin_fmaf(p, r, 1.0F);
  const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  float scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return p * scale * low;
}

static inline float silu_scalar(float x) { return x / (1.0F + exp_scalar(-x)); }

}  // namespace fathom::cpu
