// The best that AVX2 does: full-width loads; products of bytes in three instructions.
#include <immintrin.h>

#include "backend/cpu/peak.h"

namespace fathom::cpu {
namespace {

uint64_t read(const std::byte* data, size_t n_bytes) noexcept {
  __m256i sum[8];
  for (__m256i& s : sum) {
    s = _mm256_setzero_si256();
  }
  for (size_t i = 0; i < n_bytes; i += sizeof sum) {
    for (size_t j = 0; j < 8; ++j) {
      const auto* p = reinterpret_cast<const __m256i*>(data + i + j * sizeof(__m256i));
      sum[j] = _mm256_xor_si256(sum[j], _mm256_load_si256(p));
    }
  }
  for (int j = 1; j < 8; ++j) {
    sum[0] = _mm256_xor_si256(sum[0], sum[j]);
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(sum[0], 0));
}

constexpr int kSums = 6;

int32_t multiply(int64_t rounds) noexcept {
  __m256i sum[kSums];
  for (__m256i& s : sum) {
    s = _mm256_setzero_si256();
  }
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m256i& s : sum) {
      __asm__ volatile("" : "+x"(a));  // the product is not the same every time, as far as the compiler knows
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  for (int j = 1; j < kSums; ++j) {
    sum[0] = _mm256_add_epi32(sum[0], sum[j]);
  }
  return _mm256_extract_epi32(sum[0], 0);
}

}  // namespace

const PeakKernels& peak_kernels_avx2() noexcept {
  static constexpr PeakKernels kKernels = {read, multiply, 2 * 32 * kSums};
  return kKernels;
}

}  // namespace fathom::cpu
