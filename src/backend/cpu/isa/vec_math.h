// Functions of vectors that are made of the operations of vec_*.h, which is included before.
#pragma once

namespace fathom::cpu {
namespace {

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, by a polynomial of degree 6: relative error below 3e-7. Below -87.3 it is 0,
// above 88.3 it stays at exp(88.3); a NaN stays one.
inline F32 exponential(F32 x) {
  const F32 low = set1(-87.3F);
  const F32 rounding = set1(0x1.8p23F);
  const F32 clamped = min(set1(88.3F), max(low, x));
  const F32 n = fma(clamped, set1(0x1.715476p0F), rounding) - rounding;
  F32 r = fma(n, set1(-0x1.62e4p-1F), clamped);
  r = fma(n, set1(-0x1.7f7d1cp-20F), r);
  F32 p = set1(0x1.6c16c2p-10F);
  p = fma(p, r, set1(0x1.111112p-7F));
  p = fma(p, r, set1(0x1.555556p-5F));
  p = fma(p, r, set1(0x1.555556p-3F));
  p = fma(p, r, set1(0.5F));
  p = fma(p, r, set1(1.0F));
  p = fma(p, r, set1(1.0F));
  const F32 scale = from_bits(shift_left<23>(to_int(n) + set1(int32_t{127})));
  return select_less(x, low, set1(0.0F), p * scale);
}

inline float sum_lanes(F32 a) {
  a = a + swap<8>(a);
  a = a + swap<4>(a);
  a = a + swap<2>(a);
  a = a + swap<1>(a);
  return first_lane(a);
}

inline float max_lanes(F32 a) {
  a = max(a, swap<8>(a));
  a = max(a, swap<4>(a));
  a = max(a, swap<2>(a));
  a = max(a, swap<1>(a));
  return first_lane(a);
}

// Calls body(i, n) for vectors of n lanes that start at element i: n is 16 but in the last.
template <class Body>
inline void for_each_vector(int count, Body body) {
  int i = 0;
  for (; i + 16 <= count; i += 16) {
    body(i, 16);
  }
  if (i < count) {
    body(i, count - i);
  }
}

}  // namespace
}  // namespace fathom::cpu
