// Sixteen lanes of one AVX-512 register. vec_scalar.h says what each operation means.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace fathom::cpu {
namespace {

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};

constexpr int kKeyTile = 16;  // accumulators that fit the register file
constexpr int kDimTile = 16;
constexpr int kMixRows = 3;
constexpr int kMixOuts = 8;

inline F32 set1(float x) { return {_mm512_set1_ps(x)}; }
inline I32 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }

inline F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32 load(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
inline void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
inline void store(float* p, F32 a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
inline I32 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline I32 load_u8(const void* p, int n) { return {_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first_lanes(n), p))}; }
inline void store_u8(void* p, I32 a, int n) { _mm512_mask_cvtepi32_storeu_epi8(p, first_lanes(n), a.v); }
inline I32 load_u16(const void* p, int n) {
  return {_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
}
inline void store_u16(void* p, I32 a, int n) { _mm512_mask_cvtepi32_storeu_epi16(p, first_lanes(n), a.v); }

inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32 square_root(F32 a) { return {_mm512_sqrt_ps(a.v)}; }

inline I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32 operator-(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32 operator|(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline I32 max(I32 a, I32 b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int kBits>
inline I32 shift_left(I32 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
inline I32 shift_right(I32 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}

inline I32 bits(F32 a) { return {_mm512_castps_si512(a.v)}; }
inline F32 from_bits(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
inline F32 to_float(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32 to_int(F32 a) { return {_mm512_cvttps_epi32(a.v)}; }

inline F32 select_less(F32 a, F32 b, F32 yes, F32 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
inline I32 select_less(I32 a, I32 b, I32 yes, I32 no) {
  return {_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(a.v, b.v), no.v, yes.v)};
}
inline F32 select_lanes(int first, int last, F32 in, F32 out) {
  return {_mm512_mask_blend_ps(static_cast<__mmask16>(first_lanes(last) & ~first_lanes(first)), out.v, in.v)};
}

template <int kDistance>
inline F32 swap(F32 a) {
  if constexpr (kDistance == 1) {
    return {_mm512_permute_ps(a.v, 0xB1)};
  } else if constexpr (kDistance == 2) {
    return {_mm512_permute_ps(a.v, 0x4E)};
  } else if constexpr (kDistance == 4) {
    return {_mm512_shuffle_f32x4(a.v, a.v, 0xB1)};
  } else {
    return {_mm512_shuffle_f32x4(a.v, a.v, 0x4E)};
  }
}
inline float first_lane(F32 a) { return _mm512_cvtss_f32(a.v); }

inline F32 sum_each(const F32* a) {
  __m512 pairs[8];  // lanes l and l + 8 summed, of two vectors
  for (int i = 0; i < 8; ++i) {
    // Lane 4 g + i of the result is letter 4 i + g of this tree.
    const int letter = 2 * i;
    const __m512 x = a[4 * (letter % 4) + letter / 4].v;
    const __m512 y = a[4 * ((letter + 1) % 4) + (letter + 1) / 4].v;
    pairs[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
  }
  __m512 fours[4];
  for (int i = 0; i < 4; ++i) {
    const __m512 x = pairs[2 * i];
    const __m512 y = pairs[2 * i + 1];
    fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xDD));
  }
  __m512 eights[2];
  for (int i = 0; i < 2; ++i) {
    const __m512d x = _mm512_castps_pd(fours[2 * i]);
    const __m512d y = _mm512_castps_pd(fours[2 * i + 1]);
    eights[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
  }
  return {_mm512_add_ps(_mm512_shuffle_ps(eights[0], eights[1], 0x88), _mm512_shuffle_ps(eights[0], eights[1], 0xDD))};
}

inline I32 dot4(I32 sum, int32_t quad, const int8_t* b) {
  return {_mm512_dpbusd_epi32(sum.v, _mm512_set1_epi32(quad), _mm512_loadu_si512(b))};
}

inline void unpack_nibbles(const void* packed, const int8_t* table, uint8_t* out) {
  const __m128i in = _mm_loadu_si128(static_cast<const __m128i*>(packed));
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  const __m128i mask = _mm_set1_epi8(0xF);
  const __m128i low = _mm_shuffle_epi8(values, _mm_and_si128(in, mask));
  const __m128i high = _mm_shuffle_epi8(values, _mm_and_si128(_mm_srli_epi16(in, 4), mask));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_unpacklo_epi8(low, high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16), _mm_unpackhi_epi8(low, high));
}

}  // namespace
}  // namespace fathom::cpu
