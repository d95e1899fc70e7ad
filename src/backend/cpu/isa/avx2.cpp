// AVX2: the 16 lanes of a panel are two registers of eight.
#include <immintrin.h>

#include "backend/cpu/isa/product_impl.h"
#include "backend/cpu/isa/silu_impl.h"

namespace fathom::cpu {
namespace {

constexpr int kHalfLanes = 8;

__m256 half8(const std::byte* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
__m128i bytes8(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

struct Scales {
  __m256 scale;
  __m256 offset;
};

// Scales and offsets of eight lanes in one block or one part of two, as lane_scale() computes them.
Scales block_scales(const PanelFormat& f, const std::byte* panel, const std::byte* block, int b, int part, int half) {
  const std::byte* after = block + f.code_bytes();
  const int lane = half * kHalfLanes;
  const __m256 factor = _mm256_set1_ps(f.factor);
  const __m256 none = _mm256_setzero_ps();
  switch (f.scale) {
    case PanelScale::kHalf:
      return {_mm256_mul_ps(half8(after + 2 * lane), factor), none};
    case PanelScale::kHalfMin:
      return {_mm256_mul_ps(half8(after + 2 * lane), factor), half8(after + 2 * (kLanes + lane))};
    case PanelScale::kPower: {
      const __m256i e = _mm256_cvtepu8_epi32(bytes8(after + lane));
      const __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
      const __m256i bits = _mm256_blendv_epi8(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(0x00400000), zero);
      return {_mm256_mul_ps(_mm256_castsi256_ps(bits), factor), none};
    }
    case PanelScale::kSuper: {
      const std::byte* header = panel + f.header_offset(b);
      const __m256i s = _mm256_cvtepi8_epi32(bytes8(header + 2 * kLanes + b % kSuperBlocks * kLanes + lane));
      return {_mm256_mul_ps(half8(header + 2 * lane), _mm256_cvtepi32_ps(s)), none};
    }
    case PanelScale::kSuperMin: {
      const std::byte* header = panel + f.header_offset(b);
      const std::byte* scales = header + 4 * kLanes + b % kSuperBlocks * kLanes + lane;
      const __m256i s = _mm256_cvtepu8_epi32(bytes8(scales));
      const __m256i m = _mm256_cvtepu8_epi32(bytes8(scales + kSuperBlocks * kLanes));
      const __m256 min = _mm256_mul_ps(half8(header + 2 * (kLanes + lane)), _mm256_cvtepi32_ps(m));
      return {_mm256_mul_ps(half8(header + 2 * lane), _mm256_cvtepi32_ps(s)),
              _mm256_xor_ps(min, _mm256_set1_ps(-0.0F))};
    }
    case PanelScale::kSuperPair: {
      const std::byte* header = panel + f.header_offset(b);
      const __m256i pair =
          _mm256_cvtepu8_epi32(bytes8(header + 4 * kLanes + (b % kSuperBlocks * 2 + part) * kLanes + lane));
      const __m256i s = _mm256_and_si256(pair, _mm256_set1_epi32(0xF));
      const __m256 min =
          _mm256_mul_ps(half8(header + 2 * (kLanes + lane)), _mm256_cvtepi32_ps(_mm256_srli_epi32(pair, 4)));
      return {_mm256_mul_ps(half8(header + 2 * lane), _mm256_cvtepi32_ps(s)),
              _mm256_xor_ps(min, _mm256_set1_ps(-0.0F))};
    }
    case PanelScale::kSuperHalves: {
      const std::byte* header = panel + f.header_offset(b);
      const __m256i s =
          _mm256_cvtepi8_epi32(bytes8(header + 2 * kLanes + (b % kSuperBlocks * 2 + part) * kLanes + lane));
      return {_mm256_mul_ps(half8(header + 2 * lane), _mm256_cvtepi32_ps(s)), none};
    }
    case PanelScale::kGridScale: {
      const __m128i pair = bytes8(after);
      const __m128i nibbles = _mm_and_si128(half == 0 ? pair : _mm_srli_epi16(pair, 4), _mm_set1_epi8(0xF));
      const __m256 s = _mm256_add_ps(_mm256_set1_ps(0.5F), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(nibbles)));
      return {_mm256_mul_ps(half8(panel + f.header_offset(b) + 2 * lane), _mm256_mul_ps(s, factor)), none};
    }
    case PanelScale::kNone:
      break;
  }
  return {none, none};
}

// All ones in the bytes whose bit is set in the half of a group's mask.
__m256i spread_mask(const std::byte* masks, int group, int half) {
  int32_t bits;
  __builtin_memcpy(&bits, masks + 8 * group + 4 * half, sizeof bits);
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(bits),
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

// `magnitude`, negative where the mask says so.
__m256i with_signs(__m256i magnitude, const std::byte* masks, int group, int half) {
  const __m256i negative = spread_mask(masks, group, half);
  return _mm256_sub_epi8(_mm256_xor_si256(magnitude, negative), negative);
}

__m256i load_half(const std::byte* group, int half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group + half * (kGroupBytes / 2)));
}

__m256i two_bits(const std::byte* planes, int group, int half) {
  const __m256i packed = load_half(planes + group / 4 * kGroupBytes, half);
  return _mm256_and_si256(_mm256_srl_epi16(packed, _mm_cvtsi32_si128(group % 4 * 2)), _mm256_set1_epi8(3));
}

__m256i nibbles(const std::byte* block, int group, int half) {
  const __m256i packed = load_half(block + group % 4 * kGroupBytes, half);
  return _mm256_and_si256(group < 4 ? packed : _mm256_srli_epi16(packed, 4), _mm256_set1_epi8(0xF));
}

// The codes of eight lanes in one group of four columns.
__m256i load_codes(const PanelFormat& f, const std::byte* block, __m256i values, int group, int half) {
  const int lane = half * kHalfLanes;
  switch (f.code) {
    case PanelCode::kQ8:
      return load_half(block + group * kGroupBytes, half);
    case PanelCode::kTwoBit:
      return two_bits(block, group, half);
    case PanelCode::kThreeBit: {
      const __m256i set = spread_mask(block + kTwoBitBlockBytes, group, half);
      return _mm256_sub_epi8(two_bits(block, group, half), _mm256_andnot_si256(set, _mm256_set1_epi8(4)));
    }
    case PanelCode::kFiveBit: {
      const __m256i set = spread_mask(block + kNibbleBlockBytes, group, half);
      return _mm256_or_si256(nibbles(block, group, half), _mm256_and_si256(set, _mm256_set1_epi8(16)));
    }
    case PanelCode::kSixBit: {
      const __m256i high = _mm256_slli_epi16(two_bits(block + kNibbleBlockBytes, group, half), 4);
      return _mm256_sub_epi8(_mm256_or_si256(nibbles(block, group, half), high), _mm256_set1_epi8(32));
    }
    case PanelCode::kGrid: {
      const __m256i index = _mm256_cvtepu8_epi32(bytes8(block + group / 2 * kLanes + lane));
      const __m256i dword = _mm256_add_epi32(_mm256_add_epi32(index, index), _mm256_set1_epi32(group % 2));
      return with_signs(_mm256_i32gather_epi32(reinterpret_cast<const int*>(f.grid), dword, 4), block + 4 * kLanes,
                        group, half);
    }
    case PanelCode::kGrid4: {
      const __m256i index = _mm256_cvtepu8_epi32(bytes8(block + group * kLanes + lane));
      return with_signs(_mm256_i32gather_epi32(reinterpret_cast<const int*>(f.grid), index, 4), block + 8 * kLanes,
                        group, half);
    }
    default:
      return _mm256_shuffle_epi8(values, nibbles(block, group, half));
  }
}

template <int R>
void quant_rows(const QuantProduct& p, int first_row, int half) {
  const PanelFormat& f = p.format;
  const __m256i values = f.code == PanelCode::kNibble
                             ? _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(f.values)))
                             : _mm256_setzero_si256();
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 acc[R];
  for (int r = 0; r < R; ++r) {
    acc[r] = _mm256_setzero_ps();
  }
  for (int b = 0; b < p.n_blocks; ++b) {
    const std::byte* block = p.panel + f.block_offset(b);
    const int8_t* x = p.x.codes + (b * kTileRows + first_row) * kBlockColumns;
    __m256i dot[2][R];
    for (int r = 0; r < R; ++r) {
      dot[0][r] = _mm256_setzero_si256();
      dot[1][r] = _mm256_setzero_si256();
    }
    for (int g = 0; g < 8; ++g) {
      const __m256i w = load_codes(f, block, values, g, half);
      const __m256i magnitude = _mm256_abs_epi8(w);
      for (int r = 0; r < R; ++r) {
        int32_t x4;
        __builtin_memcpy(&x4, x + r * kBlockColumns + 4 * g, 4);
        // |w| * (x with the sign of w): at most 2 * 128 * 127 in a pair, which fits 16 bits.
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(_mm256_set1_epi32(x4), w));
        dot[g / 4][r] = _mm256_add_epi32(dot[g / 4][r], _mm256_madd_epi16(pairs, ones));
      }
    }
    const Scales s = block_scales(f, p.panel, block, b, 0, half);
    const Scales s_high = has_halves(f.scale) ? block_scales(f, p.panel, block, b, 1, half) : s;
    const float* xs = p.x.scales + b * kTileRows + first_row;
    const int32_t* sums = p.x.sums + b * kTileRows + first_row;
    const int32_t* low_sums = p.x.low_sums + b * kTileRows + first_row;
    const auto add = [&](int r, __m256i d, const Scales& scales, int32_t sum) {
      acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d), _mm256_mul_ps(_mm256_set1_ps(xs[r]), scales.scale), acc[r]);
      if (has_offset(f.scale)) {
        acc[r] = _mm256_fmadd_ps(scales.offset, _mm256_set1_ps(xs[r] * static_cast<float>(sum)), acc[r]);
      }
    };
    for (int r = 0; r < R; ++r) {
      if (has_halves(f.scale)) {
        add(r, dot[0][r], s, low_sums[r]);
        add(r, dot[1][r], s_high, sums[r] - low_sums[r]);
      } else {
        add(r, _mm256_add_epi32(dot[0][r], dot[1][r]), s, sums[r]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    alignas(32) float lanes[kHalfLanes];
    _mm256_store_ps(lanes, acc[r]);
    for (int i = 0; i < kHalfLanes; ++i) {
      const int lane = half * kHalfLanes + i;
      if (lane >= p.first_lane && lane < p.last_lane) {
        p.y[(first_row + r) * p.ld + lane] = lanes[i];
      }
    }
  }
}

void quant_tile(const QuantProduct& p) noexcept {
  for (int half = 0; half < 2; ++half) {
    int row = 0;
    for (; row + 4 <= p.n_rows; row += 4) {
      quant_rows<4>(p, row, half);
    }
    for (; row < p.n_rows; ++row) {
      quant_rows<1>(p, row, half);
    }
  }
}

void quant_panel(const QuantPanelProduct& p) noexcept {
  for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
    quant_tile(tile_at(p, tile));
  }
}

void quantize_row(const float* x, int n, int row, int8_t* codes, float* scales, int32_t* sums,
                  int32_t* low_sums) noexcept {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256 round = _mm256_set1_ps(kRound);
  for (int b = 0; b < n / kBlockColumns; ++b) {
    const float* in = x + b * kBlockColumns;
    __m256 max = _mm256_setzero_ps();
    for (int i = 0; i < 4; ++i) {
      max = _mm256_max_ps(max, _mm256_andnot_ps(sign, _mm256_loadu_ps(in + 8 * i)));
    }
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    const float amax = _mm_cvtss_f32(m);
    const __m256 inverse = _mm256_set1_ps(amax > 0.0F ? 127.0F / amax : 0.0F);
    int8_t* out = codes + (b * kTileRows + row) * kBlockColumns;
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(in + 8 * i), inverse);
      alignas(32) int32_t c[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(c),
                         _mm256_cvtps_epi32(_mm256_sub_ps(_mm256_add_ps(scaled, round), round)));
      for (int k = 0; k < 8; ++k) {
        out[8 * i + k] = static_cast<int8_t>(c[k]);
        sum += c[k];
      }
      low_sums[b * kTileRows + row] = i < 2 ? sum : low_sums[b * kTileRows + row];
    }
    scales[b * kTileRows + row] = amax * (1.0F / 127.0F);
    sums[b * kTileRows + row] = sum;
  }
}

__m256 float_lanes(PanelCode code, const std::byte* panel, ptrdiff_t k, int half) {
  const ptrdiff_t at = k * kLanes + half * kHalfLanes;
  if (code == PanelCode::kE4M3) {
    // An F16 with the same fields, whose exponent is biased by 8 more.
    const __m128i bits = _mm_cvtepu8_epi16(bytes8(panel + at));
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(0x80)), 8);
    const __m128i rest = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(0x7F)), 7);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(sign, rest)), _mm256_set1_ps(0x1p8F));
  }
  if (code == PanelCode::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(panel + at * 4));
  }
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(panel + at * 2));
  return code == PanelCode::kF16 ? _mm256_cvtph_ps(h)
                                 : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

template <int R>
void float_rows_of(const FloatProduct& p, int first_row, int half) {
  __m256 acc[R];
  for (int r = 0; r < R; ++r) {
    acc[r] = _mm256_setzero_ps();
  }
  const float* x = p.x + first_row * p.x_ld;
  for (int k = 0; k < p.columns; ++k) {
    __m256 w = float_lanes(p.code, p.panel, k, half);
    if (p.code == PanelCode::kE4M3) {
      float scale;
      __builtin_memcpy(&scale, p.panel + p.columns * kLanes + k / kE4M3Columns * 4, sizeof scale);
      w = _mm256_mul_ps(w, _mm256_set1_ps(scale));
    }
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm256_fmadd_ps(w, _mm256_set1_ps(x[r * p.x_ld + k]), acc[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    alignas(32) float lanes[kHalfLanes];
    _mm256_store_ps(lanes, acc[r]);
    for (int i = 0; i < kHalfLanes; ++i) {
      const int lane = half * kHalfLanes + i;
      if (lane >= p.first_lane && lane < p.last_lane) {
        p.y[(first_row + r) * p.y_ld + lane] = lanes[i];
      }
    }
  }
}

void float_rows(const FloatProduct& p) noexcept {
  for (int half = 0; half < 2; ++half) {
    int row = 0;
    for (; row + 8 <= p.n_rows; row += 8) {
      float_rows_of<8>(p, row, half);
    }
    for (; row < p.n_rows; ++row) {
      float_rows_of<1>(p, row, half);
    }
  }
}

__m256 exp8(__m256 x) {
  const __m256 live = _mm256_cmp_ps(x, _mm256_set1_ps(kExpLow), _CMP_NLT_UQ);
  x = _mm256_max_ps(_mm256_set1_ps(kExpLow), x);
  x = _mm256_min_ps(_mm256_set1_ps(kExpHigh), x);
  const __m256 round = _mm256_set1_ps(kRound);
  const __m256 n = _mm256_sub_ps(_mm256_fmadd_ps(x, _mm256_set1_ps(kLog2E), round), round);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2High), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2Low), r);
  __m256 p = _mm256_set1_ps(kExpC[0]);
  for (int i = 1; i < 5; ++i) {
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC[i]));
  }
  const __m256 one = _mm256_set1_ps(1.0F);
  p = _mm256_fmadd_ps(p, r, one);
  p = _mm256_fmadd_ps(p, r, one);
  const __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_and_ps(live, _mm256_mul_ps(p, _mm256_castsi256_ps(bits)));
}

void swiglu(const float* gate, const float* up, int n, float limit, float weight, float* out) noexcept {
  const __m256 high = _mm256_set1_ps(limit);
  const __m256 low = _mm256_set1_ps(-limit);
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 g = _mm256_loadu_ps(gate + i);
    __m256 u = _mm256_loadu_ps(up + i);
    if (limit > 0.0F) {
      g = _mm256_min_ps(g, high);
      u = _mm256_max_ps(_mm256_min_ps(u, high), low);
    }
    const __m256 e = exp8(_mm256_xor_ps(g, _mm256_set1_ps(-0.0F)));
    const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0F), e));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_set1_ps(weight), _mm256_mul_ps(silu, u)));
  }
  for (; i < n; ++i) {
    float g = gate[i];
    float u = up[i];
    if (limit > 0.0F) {
      g = g < limit ? g : limit;
      u = u < limit ? u : limit;
      u = u > -limit ? u : -limit;
    }
    out[i] = weight * (silu_scalar(g) * u);
  }
}

}  // namespace

const CpuKernels& kernels_avx2() noexcept {
  static const CpuKernels table = {
      "avx2", {quantize_row, quant_tile, quant_panel, float_rows, swiglu}, &kAttentionAvx2, &kRowAvx2};
  return table;
}

}  // namespace fathom::cpu
