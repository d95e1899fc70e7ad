// Kernels that avx512.cpp and amx.cpp share. Static functions only.
#pragma once

#include <immintrin.h>

#include "backend/cpu/isa/product_impl.h"
#include "backend/cpu/isa/silu_impl.h"

namespace fathom::cpu::avx512 {

static inline __m512 half16(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

static inline __m128i bytes16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

struct Scales {
  __m512 scale;
  __m512 offset;
};

// Scales and offsets of the 16 lanes in one block, as lane_scale() computes them.
template <PanelScale S>
static inline Scales block_scales(const PanelFormat& f, const std::byte* block) {
  const std::byte* after = block + f.code_bytes();
  const __m512 factor = _mm512_set1_ps(f.factor);
  if constexpr (S == PanelScale::kHalf) {
    return {_mm512_mul_ps(half16(after), factor), _mm512_setzero_ps()};
  } else if constexpr (S == PanelScale::kHalfMin) {
    return {_mm512_mul_ps(half16(after), factor), half16(after + 2 * kLanes)};
  } else {
    const __m512i e = _mm512_cvtepu8_epi32(bytes16(after));
    const __m512i bits =
        _mm512_mask_mov_epi32(_mm512_slli_epi32(e, 23), _mm512_testn_epi32_mask(e, e), _mm512_set1_epi32(0x00400000));
    return {_mm512_mul_ps(_mm512_castsi512_ps(bits), factor), _mm512_setzero_ps()};
  }
}

// What the integers of a group are multiplied by, as lane_factor() computes it.
template <PanelScale S>
static inline Scales group_factors(const PanelFormat& f, const std::byte* header) {
  const __m512 d = half16(header);
  if constexpr (S == PanelScale::kGridScale) {
    return {_mm512_mul_ps(d, _mm512_set1_ps(0.5F * f.factor)), _mm512_setzero_ps()};
  } else if constexpr (has_offset(S)) {
    return {d, _mm512_xor_ps(half16(header + 2 * kLanes), _mm512_set1_ps(-0.0F))};
  } else {
    return {d, _mm512_setzero_ps()};
  }
}

// Integer scales and mins of the 16 lanes in one block, as lane_integer() computes them: pairs of 16 bits, of the first
// half and of the second.
struct Integers {
  __m512i scales;
  __m512i mins;
};

static inline __m512i pair_of(__m512i low, __m512i high) {
  return _mm512_mask_blend_epi16(0xAAAAAAAA, low, _mm512_slli_epi32(high, 16));
}

template <PanelScale S>
static inline Integers block_integers(const PanelFormat& f, const std::byte* header, const std::byte* block, int b) {
  const int sub = b % kSuperBlocks;
  const __m512i none = _mm512_setzero_si512();
  if constexpr (S == PanelScale::kSuper) {
    const __m512i s = _mm512_cvtepi8_epi32(bytes16(header + 2 * kLanes + sub * kLanes));
    return {pair_of(s, s), none};
  } else if constexpr (S == PanelScale::kSuperMin) {
    const std::byte* scales = header + 4 * kLanes + sub * kLanes;
    const __m512i s = _mm512_cvtepu8_epi32(bytes16(scales));
    const __m512i m = _mm512_cvtepu8_epi32(bytes16(scales + kSuperBlocks * kLanes));
    return {pair_of(s, s), pair_of(m, m)};
  } else if constexpr (S == PanelScale::kSuperPair) {
    const __m512i low = _mm512_cvtepu8_epi32(bytes16(header + 4 * kLanes + 2 * sub * kLanes));
    const __m512i high = _mm512_cvtepu8_epi32(bytes16(header + 4 * kLanes + (2 * sub + 1) * kLanes));
    const __m512i both = pair_of(low, high);
    return {_mm512_and_si512(both, _mm512_set1_epi16(0xF)), _mm512_srli_epi16(both, 4)};
  } else if constexpr (S == PanelScale::kSuperHalves) {
    const __m512i low = _mm512_cvtepi8_epi32(bytes16(header + 2 * kLanes + 2 * sub * kLanes));
    const __m512i high = _mm512_cvtepi8_epi32(bytes16(header + 2 * kLanes + (2 * sub + 1) * kLanes));
    return {pair_of(low, high), none};
  } else {
    const __m128i pair = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + f.code_bytes()));
    const __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi64(pair, _mm_srli_epi16(pair, 4)), _mm_set1_epi8(0xF));
    const __m512i n = _mm512_cvtepu8_epi32(nibbles);
    const __m512i s = _mm512_add_epi32(_mm512_add_epi32(n, n), _mm512_set1_epi32(1));
    return {pair_of(s, s), none};
  }
}

static inline void load_two_bits(const std::byte* planes, __m512i (&w)[8]) {
  const __m512i mask = _mm512_set1_epi8(3);
  for (int half = 0; half < 2; ++half) {
    const __m512i packed = _mm512_loadu_si512(planes + half * kGroupBytes);
    w[4 * half] = _mm512_and_si512(packed, mask);
    w[4 * half + 1] = _mm512_and_si512(_mm512_srli_epi16(packed, 2), mask);
    w[4 * half + 2] = _mm512_and_si512(_mm512_srli_epi16(packed, 4), mask);
    w[4 * half + 3] = _mm512_and_si512(_mm512_srli_epi16(packed, 6), mask);
  }
}

static inline void load_nibbles(const std::byte* block, __m512i (&w)[8]) {
  const __m512i mask = _mm512_set1_epi8(0xF);
  for (int g = 0; g < 4; ++g) {
    const __m512i packed = _mm512_loadu_si512(block + g * kGroupBytes);
    w[g] = _mm512_and_si512(packed, mask);
    w[g + 4] = _mm512_and_si512(_mm512_srli_epi16(packed, 4), mask);
  }
}

static inline __mmask64 group_mask(const std::byte* masks, int group) {
  uint64_t mask;
  __builtin_memcpy(&mask, masks + 8 * group, sizeof mask);
  return mask;
}

// What is added to codes so that none is negative: vpdpbusd wants one unsigned operand.
template <PanelCode C, PanelScale S>
static constexpr int code_bias() {
  switch (C) {
    case PanelCode::kTwoBit:
    case PanelCode::kFiveBit:
      return 0;
    case PanelCode::kThreeBit:
      return 4;
    case PanelCode::kSixBit:
      return 32;
    case PanelCode::kNibble:
      return S == PanelScale::kSuperMin || S == PanelScale::kHalfMin ? 0 : 128;
    default:
      return 128;
  }
}

// The 8 groups of codes of one block, biased.
template <PanelCode C, PanelScale S>
static inline void load_codes(const PanelFormat& f, const std::byte* block, __m512i (&w)[8]) {
  if constexpr (C == PanelCode::kQ8) {
    for (int g = 0; g < 8; ++g) {
      w[g] = _mm512_loadu_si512(block + g * kGroupBytes);
    }
  } else if constexpr (C == PanelCode::kTwoBit) {
    load_two_bits(block, w);
  } else if constexpr (C == PanelCode::kThreeBit) {
    load_two_bits(block, w);
    const __m512i four = _mm512_set1_epi8(4);
    for (int g = 0; g < 8; ++g) {
      w[g] = _mm512_mask_add_epi8(w[g], group_mask(block + kTwoBitBlockBytes, g), w[g], four);
    }
  } else if constexpr (C == PanelCode::kFiveBit) {
    load_nibbles(block, w);
    const __m512i sixteen = _mm512_set1_epi8(16);
    for (int g = 0; g < 8; ++g) {
      w[g] = _mm512_mask_add_epi8(w[g], group_mask(block + kNibbleBlockBytes, g), w[g], sixteen);
    }
  } else if constexpr (C == PanelCode::kSixBit) {
    load_nibbles(block, w);
    __m512i high[8];
    load_two_bits(block + kNibbleBlockBytes, high);
    for (int g = 0; g < 8; ++g) {  // the upper bits are at most 3: a shift by four stays within the byte
      w[g] = _mm512_or_si512(w[g], _mm512_slli_epi16(high[g], 4));
    }
  } else if constexpr (C == PanelCode::kGrid) {
    // Eight bytes of the grid per lane are two groups of four columns: even and odd dwords.
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    const __m512i zero = _mm512_setzero_si512();
    for (int i = 0; i < 4; ++i) {
      const __m128i index = bytes16(block + i * kLanes);
      const __m512i low = _mm512_i64gather_epi64(_mm512_cvtepu8_epi64(index), f.grid, 8);
      const __m512i high = _mm512_i64gather_epi64(_mm512_cvtepu8_epi64(_mm_srli_si128(index, 8)), f.grid, 8);
      const __m512i m0 = _mm512_permutex2var_epi32(low, even, high);
      const __m512i m1 = _mm512_permutex2var_epi32(low, odd, high);
      w[2 * i] = _mm512_mask_sub_epi8(m0, group_mask(block + 4 * kLanes, 2 * i), zero, m0);
      w[2 * i + 1] = _mm512_mask_sub_epi8(m1, group_mask(block + 4 * kLanes, 2 * i + 1), zero, m1);
    }
  } else if constexpr (C == PanelCode::kGrid4) {
    const __m512i zero = _mm512_setzero_si512();
    for (int g = 0; g < 8; ++g) {
      const __m512i m = _mm512_i32gather_epi32(_mm512_cvtepu8_epi32(bytes16(block + g * kLanes)), f.grid, 4);
      w[g] = _mm512_mask_sub_epi8(m, group_mask(block + 8 * kLanes, g), zero, m);
    }
  } else {
    load_nibbles(block, w);
    if constexpr (code_bias<C, S>() != 0) {
      const __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(f.values)));
      for (int g = 0; g < 8; ++g) {
        w[g] = _mm512_shuffle_epi8(values, w[g]);
      }
    }
  }
  if constexpr (code_bias<C, S>() == 128) {
    for (int g = 0; g < 8; ++g) {
      w[g] = _mm512_xor_si512(w[g], _mm512_set1_epi8(static_cast<char>(0x80)));
    }
  }
}

static inline __mmask16 lane_mask(int first, int last) {
  return static_cast<__mmask16>((0xFFFFU << first) & (0xFFFFU >> (kLanes - last)));
}

// A panel's biased codes for products with many rows: [blocks][8][64].
template <PanelCode C, PanelScale S>
static void expand_codes(const QuantProduct& p, std::byte* out) {
  for (int b = 0; b < p.n_blocks; ++b) {
    __m512i w[8];
    load_codes<C, S>(p.format, p.panel + p.format.block_offset(b), w);
    for (int g = 0; g < 8; ++g) {
      _mm512_store_si512(out + b * kQ8BlockBytes + g * kGroupBytes, w[g]);
    }
  }
}

// R rows; `expanded`: the panel's codes as expand_codes() leaves them, or null.
template <PanelCode C, PanelScale S, int R>
static void quant_rows(const QuantProduct& p, int first_row, const std::byte* expanded) {
  const PanelFormat& f = p.format;
  constexpr int kBias = code_bias<C, S>();
  constexpr bool kIntegers = has_integers(S);
  __m512 acc[R];
  __m512i dots[R];  // of a group, by integer scales
  __m512i mins[R];  // sums by mins, or by scales where codes are biased
  for (int r = 0; r < R; ++r) {
    acc[r] = _mm512_setzero_ps();
    dots[r] = _mm512_setzero_si512();
    mins[r] = _mm512_setzero_si512();
  }
  const std::byte* block = p.panel;
  const std::byte* header = p.panel;
  for (int b = 0; b < p.n_blocks; ++b) {
    if (f.header_bytes() != 0 && b % kSuperBlocks == 0) {
      header = block;
      block += f.header_bytes();
    }
    __m512i w[8];
    if (expanded != nullptr) {
      for (int g = 0; g < 8; ++g) {
        w[g] = _mm512_load_si512(expanded + b * kQ8BlockBytes + g * kGroupBytes);
      }
    } else {
      load_codes<C, S>(f, block, w);
    }
    const ptrdiff_t at = QuantTile::scale_at(b, first_row);
    // Two chains of four products each, over the first and the second half of the columns.
    const auto multiply = [&](int r, __m512i& low, __m512i& high) {
      const int8_t* x = p.x.codes + QuantTile::code_at(b, first_row + r);
      for (int g = 0; g < 4; ++g) {
        int32_t x_low;
        int32_t x_high;
        __builtin_memcpy(&x_low, x + 4 * g, 4);
        __builtin_memcpy(&x_high, x + 16 + 4 * g, 4);
        low = _mm512_dpbusd_epi32(low, w[g], _mm512_set1_epi32(x_low));
        high = _mm512_dpbusd_epi32(high, w[g + 4], _mm512_set1_epi32(x_high));
      }
    };
    const auto sum_pair = [&](int r) {
      int32_t pair;
      __builtin_memcpy(&pair, p.x.sums + 2 * (at + r), sizeof pair);
      return pair;
    };
    if constexpr (kIntegers) {
      const Integers n = block_integers<S>(f, header, block, b);
      const __m512i s_low = _mm512_srai_epi32(_mm512_slli_epi32(n.scales, 16), 16);
      const __m512i s_high = has_halves(S) ? _mm512_srai_epi32(n.scales, 16) : s_low;
      for (int r = 0; r < R; ++r) {
        __m512i low = _mm512_setzero_si512();
        __m512i high = _mm512_setzero_si512();
        multiply(r, low, high);
        if constexpr (has_halves(S)) {
          dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(low, s_low));
          dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(high, s_high));
        } else {
          dots[r] = _mm512_add_epi32(dots[r], _mm512_mullo_epi32(_mm512_add_epi32(low, high), s_low));
        }
        if constexpr (has_offset(S)) {
          mins[r] = _mm512_dpwssd_epi32(mins[r], n.mins, _mm512_set1_epi32(sum_pair(r)));
        } else if constexpr (kBias != 0) {
          mins[r] = _mm512_dpwssd_epi32(mins[r], n.scales, _mm512_set1_epi32(sum_pair(r)));
        }
      }
      if (b % kGroupBlocks == kGroupBlocks - 1 || b == p.n_blocks - 1) {
        const Scales factors = group_factors<S>(f, header);
        for (int r = 0; r < R; ++r) {
          const __m512 x_scale = _mm512_set1_ps(p.x.scales[at + r]);
          if constexpr (kBias != 0) {
            dots[r] = _mm512_sub_epi32(dots[r], _mm512_mullo_epi32(mins[r], _mm512_set1_epi32(kBias)));
          }
          acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(x_scale, factors.scale), acc[r]);
          if constexpr (has_offset(S)) {
            acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(mins[r]), _mm512_mul_ps(x_scale, factors.offset), acc[r]);
          }
          dots[r] = _mm512_setzero_si512();
          mins[r] = _mm512_setzero_si512();
        }
      }
    } else {
      const Scales s = block_scales<S>(f, block);
      for (int r = 0; r < R; ++r) {
        const int32_t sum = p.x.sums[2 * (at + r)] + p.x.sums[2 * (at + r) + 1];
        __m512i low = kBias == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(-kBias * sum);
        __m512i high = _mm512_setzero_si512();
        multiply(r, low, high);
        const float xs = p.x.scales[at + r];
        acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(low, high)),
                                 _mm512_mul_ps(_mm512_set1_ps(xs), s.scale), acc[r]);
        if constexpr (has_offset(S)) {
          acc[r] = _mm512_fmadd_ps(s.offset, _mm512_set1_ps(xs * static_cast<float>(sum)), acc[r]);
        }
      }
    }
    block += f.block_bytes();
  }
  const __mmask16 mask = lane_mask(p.first_lane, p.last_lane);
  for (int r = 0; r < R; ++r) {
    _mm512_mask_storeu_ps(p.y + (first_row + r) * p.ld, mask, acc[r]);
  }
}

template <PanelCode C, PanelScale S>
static void quant_tile_of(const QuantProduct& p, const std::byte* expanded = nullptr) {
  int row = 0;
  for (; row + 8 <= p.n_rows; row += 8) {
    quant_rows<C, S, 8>(p, row, expanded);
  }
  if (p.n_rows - row >= 4) {
    quant_rows<C, S, 4>(p, row, expanded);
    row += 4;
  }
  if (p.n_rows - row >= 2) {
    quant_rows<C, S, 2>(p, row, expanded);
    row += 2;
  }
  if (p.n_rows - row >= 1) {
    quant_rows<C, S, 1>(p, row, expanded);
  }
}

static void quant_tile(const QuantProduct& p) noexcept {
  with_format(p.format, [&]<PanelCode C, PanelScale S>() { quant_tile_of<C, S>(p); });
}

static void quantize_row(const float* x, int n, int group, int row, const QuantTileOut& tile) noexcept {
  const __m512 round = _mm512_set1_ps(kRound);
  const int n_blocks = n / kBlockColumns;
  for (int first = 0; first < n_blocks; first += group) {
    const int last = first + group < n_blocks ? first + group : n_blocks;
    __m512 largest = _mm512_setzero_ps();
    for (int i = first * kBlockColumns; i < last * kBlockColumns; i += 16) {
      largest = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i)), largest);
    }
    const float amax = _mm512_reduce_max_ps(largest);
    const __m512 inverse = _mm512_set1_ps(amax > 0.0F ? 127.0F / amax : 0.0F);
    const auto code = [&](const float* v) {
      return _mm512_cvtps_epi32(_mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(v), inverse), round), round));
    };
    for (int b = first; b < last; ++b) {
      const __m512i c0 = code(x + b * kBlockColumns);
      const __m512i c1 = code(x + b * kBlockColumns + 16);
      int8_t* out = tile.codes + QuantTile::code_at(b, row);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(c0));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16), _mm512_cvtepi32_epi8(c1));
      const ptrdiff_t at = QuantTile::scale_at(b, row);
      tile.scales[at] = amax * (1.0F / 127.0F);
      tile.sums[2 * at] = static_cast<int16_t>(_mm512_reduce_add_epi32(c0));
      tile.sums[2 * at + 1] = static_cast<int16_t>(_mm512_reduce_add_epi32(c1));
    }
  }
}

template <PanelCode C>
static inline __m512 float_lanes(const std::byte* panel, ptrdiff_t k) {
  if constexpr (C == PanelCode::kF32) {
    return _mm512_loadu_ps(panel + k * kLanes * 4);
  } else if constexpr (C == PanelCode::kE4M3) {
    // An F16 with the same fields, whose exponent is biased by 8 more.
    const __m256i code = _mm256_cvtepu8_epi16(bytes16(panel + k * kLanes));
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(code, _mm256_set1_epi16(0x80)), 8);
    const __m256i rest = _mm256_slli_epi16(_mm256_and_si256(code, _mm256_set1_epi16(0x7F)), 7);
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(sign, rest)), _mm512_set1_ps(0x1p8F));
  } else {
    const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + k * kLanes * 2));
    if constexpr (C == PanelCode::kF16) {
      return _mm512_cvtph_ps(h);
    } else {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
  }
}

template <PanelCode C, int R>
static void float_rows_of(const FloatProduct& p, int first_row) {
  __m512 acc[R];
  for (int r = 0; r < R; ++r) {
    acc[r] = _mm512_setzero_ps();
  }
  const float* x = p.x + first_row * p.x_ld;
  for (int k = 0; k < p.columns; ++k) {
    __m512 w = float_lanes<C>(p.panel, k);
    if constexpr (C == PanelCode::kE4M3) {
      float scale;
      __builtin_memcpy(&scale, p.panel + p.columns * kLanes + k / kE4M3Columns * 4, sizeof scale);
      w = _mm512_mul_ps(w, _mm512_set1_ps(scale));
    }
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[r * p.x_ld + k]), acc[r]);
    }
  }
  const __mmask16 mask = lane_mask(p.first_lane, p.last_lane);
  for (int r = 0; r < R; ++r) {
    _mm512_mask_storeu_ps(p.y + (first_row + r) * p.y_ld, mask, acc[r]);
  }
}

template <PanelCode C>
static void float_rows_in(const FloatProduct& p) {
  int row = 0;
  for (; row + 12 <= p.n_rows; row += 12) {
    float_rows_of<C, 12>(p, row);
  }
  for (; row + 4 <= p.n_rows; row += 4) {
    float_rows_of<C, 4>(p, row);
  }
  for (; row < p.n_rows; ++row) {
    float_rows_of<C, 1>(p, row);
  }
}

static void float_rows(const FloatProduct& p) noexcept {
  switch (p.code) {
    case PanelCode::kBF16:
      return float_rows_in<PanelCode::kBF16>(p);
    case PanelCode::kF16:
      return float_rows_in<PanelCode::kF16>(p);
    case PanelCode::kE4M3:
      return float_rows_in<PanelCode::kE4M3>(p);
    default:
      return float_rows_in<PanelCode::kF32>(p);
  }
}

static inline __m512 exp16(__m512 x) {
  const __mmask16 live = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExpLow), _CMP_NLT_UQ);
  x = _mm512_max_ps(_mm512_set1_ps(kExpLow), x);
  x = _mm512_min_ps(_mm512_set1_ps(kExpHigh), x);
  const __m512 round = _mm512_set1_ps(kRound);
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(kLog2E), round), round);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2High), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2Low), r);
  __m512 p = _mm512_set1_ps(kExpC[0]);
  for (int i = 1; i < 5; ++i) {
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC[i]));
  }
  const __m512 one = _mm512_set1_ps(1.0F);
  p = _mm512_fmadd_ps(p, r, one);
  p = _mm512_fmadd_ps(p, r, one);
  const __m512i bits = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
  return _mm512_maskz_mul_ps(live, p, _mm512_castsi512_ps(bits));
}

static void swiglu(const float* gate, const float* up, int n, float limit, float weight, float* out) noexcept {
  const __m512 one = _mm512_set1_ps(1.0F);
  const __m512 high = _mm512_set1_ps(limit);
  const __m512 low = _mm512_set1_ps(-limit);
  for (int i = 0; i < n; i += 16) {
    const __mmask16 mask = n - i >= 16 ? 0xFFFF : static_cast<__mmask16>((1U << (n - i)) - 1U);
    __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
    __m512 u = _mm512_maskz_loadu_ps(mask, up + i);
    if (limit > 0.0F) {
      g = _mm512_min_ps(g, high);
      u = _mm512_max_ps(_mm512_min_ps(u, high), low);
    }
    const __m512 e = exp16(_mm512_xor_ps(g, _mm512_set1_ps(-0.0F)));
    const __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, e));
    _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(_mm512_set1_ps(weight), _mm512_mul_ps(silu, u)));
  }
}

}  // namespace fathom::cpu::avx512
