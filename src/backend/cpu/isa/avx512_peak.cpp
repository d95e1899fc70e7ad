// The best that AVX-512 with VNNI does: loads of whole cache lines; products of bytes in one instruction.
#include <immintrin.h>

#include "backend/cpu/peak.h"

namespace fathom::cpu {
namespace {

uint64_t read(const std::byte* data, size_t n_bytes) noexcept {
  __m512i sum[8];
  for (__m512i& s : sum) {
    s = _mm512_setzero_si512();
  }
  for (size_t i = 0; i < n_bytes; i += sizeof sum) {
    for (size_t j = 0; j < 8; ++j) {
      sum[j] = _mm512_xor_si512(sum[j], _mm512_load_si512(data + i + j * sizeof(__m512i)));
    }
  }
  for (int j = 1; j < 8; ++j) {
    sum[0] = _mm512_xor_si512(sum[0], sum[j]);
  }
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(sum[0])));
}

constexpr int kSums = 16;  // more than the instruction's latency times its rate

int32_t multiply(int64_t rounds) noexcept {
  __m512i sum[kSums];
  for (__m512i& s : sum) {
    s = _mm512_setzero_si512();
  }
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(-5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512i& s : sum) {
      s = _mm512_dpbusd_epi32(s, a, b);
    }
  }
  for (int j = 1; j < kSums; ++j) {
    sum[0] = _mm512_add_epi32(sum[0], sum[j]);
  }
  return _mm_cvtsi128_si32(_mm512_castsi512_si128(sum[0]));
}

}  // namespace

const PeakKernels& peak_kernels_avx512() noexcept {
  static constexpr PeakKernels kKernels = {read, multiply, 2 * 64 * kSums};
  return kKernels;
}

}  // namespace fathom::cpu
