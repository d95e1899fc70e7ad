// Sixteen lanes in two AVX2 registers. vec_scalar.h says what each operation means.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace fathom::cpu {
namespace {

struct F32 {
  __m256 lo;
  __m256 hi;
};
struct I32 {
  __m256i lo;
  __m256i hi;
};

constexpr int kKeyTile = 4;
constexpr int kDimTile = 4;
constexpr int kMixRows = 1;
constexpr int kMixOuts = 4;

inline F32 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline I32 set1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I32 lane_numbers() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
// All bits set in the first n lanes.
inline I32 first_lanes(int n) {
  const __m256i count = _mm256_set1_epi32(n);
  const I32 lane = lane_numbers();
  return {_mm256_cmpgt_epi32(count, lane.lo), _mm256_cmpgt_epi32(count, lane.hi)};
}

inline F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline F32 load(const float* p, int n) {
  const I32 mask = first_lanes(n);
  return {_mm256_maskload_ps(p, mask.lo), _mm256_maskload_ps(p + 8, mask.hi)};
}
inline void store(float* p, F32 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline void store(float* p, F32 a, int n) {
  const I32 mask = first_lanes(n);
  _mm256_maskstore_ps(p, mask.lo, a.lo);
  _mm256_maskstore_ps(p + 8, mask.hi, a.hi);
}
inline I32 load(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
inline void store(int32_t* p, I32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
inline I32 load_u8(const void* p, int n) {
  __m128i in = _mm_setzero_si128();
  if (n == 16) {
    in = _mm_loadu_si128(static_cast<const __m128i*>(p));
  } else {
    __builtin_memcpy(&in, p, static_cast<size_t>(n));
  }
  return {_mm256_cvtepu8_epi32(in), _mm256_cvtepu8_epi32(_mm_srli_si128(in, 8))};
}
inline I32 load_u16(const void* p, int n) {
  __m256i in = _mm256_setzero_si256();
  if (n == 16) {
    in = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  } else {
    __builtin_memcpy(&in, p, 2 * static_cast<size_t>(n));
  }
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(in)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(in, 1))};
}
inline void store_u16(void* p, I32 a, int n) {
  const __m256i out = _mm256_permute4x64_epi64(_mm256_packus_epi32(a.lo, a.hi), 0xD8);
  __builtin_memcpy(p, &out, 2 * static_cast<size_t>(n));
}
inline void store_u8(void* p, I32 a, int n) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a.lo, a.hi), 0xD8);
  const __m128i out = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  __builtin_memcpy(p, &out, static_cast<size_t>(n));
}

inline F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline F32 square_root(F32 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }

inline I32 operator+(I32 a, I32 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
inline I32 operator-(I32 a, I32 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
inline I32 operator|(I32 a, I32 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
inline I32 max(I32 a, I32 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
template <int kBits>
inline I32 shift_left(I32 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
inline I32 shift_right(I32 a) {
  return {_mm256_srli_epi32(a.lo, kBits), _mm256_srli_epi32(a.hi, kBits)};
}

inline I32 bits(F32 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
inline F32 from_bits(I32 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
inline F32 to_float(I32 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline I32 to_int(F32 a) { return {_mm256_cvttps_epi32(a.lo), _mm256_cvttps_epi32(a.hi)}; }

inline F32 select(I32 mask, F32 yes, F32 no) {
  const F32 m = from_bits(mask);
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
inline F32 select_less(F32 a, F32 b, F32 yes, F32 no) {
  return select(bits({_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)}), yes, no);
}
inline I32 select_less(I32 a, I32 b, I32 yes, I32 no) {
  const I32 mask = {_mm256_cmpgt_epi32(b.lo, a.lo), _mm256_cmpgt_epi32(b.hi, a.hi)};
  return bits(select(mask, from_bits(yes), from_bits(no)));
}
inline F32 select_lanes(int first, int last, F32 in, F32 out) {
  return select(first_lanes(first), out, select(first_lanes(last), in, out));
}

template <int kDistance>
inline F32 swap(F32 a) {
  if constexpr (kDistance == 1) {
    return {_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
  } else if constexpr (kDistance == 2) {
    return {_mm256_permute_ps(a.lo, 0x4E), _mm256_permute_ps(a.hi, 0x4E)};
  } else if constexpr (kDistance == 4) {
    return {_mm256_permute2f128_ps(a.lo, a.lo, 1), _mm256_permute2f128_ps(a.hi, a.hi, 1)};
  } else {
    return {a.hi, a.lo};
  }
}
inline float first_lane(F32 a) { return _mm256_cvtss_f32(a.lo); }

inline float sum_one(F32 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline F32 sum_each(const F32* a) {
  alignas(64) float sums[16];
  for (int i = 0; i < 16; ++i) {
    sums[i] = sum_one(a[i]);
  }
  return load(sums);
}

// Products of codes up to 24 and of magnitude 12: two of them fit 16 bits.
inline I32 dot4(I32 sum, int32_t quad, const int8_t* b) {
  const __m256i a = _mm256_set1_epi32(quad);
  const __m256i one = _mm256_set1_epi16(1);
  const auto* p = reinterpret_cast<const __m256i*>(b);
  const __m256i lo = _mm256_madd_epi16(_mm256_maddubs_epi16(a, _mm256_loadu_si256(p)), one);
  const __m256i hi = _mm256_madd_epi16(_mm256_maddubs_epi16(a, _mm256_loadu_si256(p + 1)), one);
  return {_mm256_add_epi32(sum.lo, lo), _mm256_add_epi32(sum.hi, hi)};
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
