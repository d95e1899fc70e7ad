// AVX2: the 16 lanes of a panel are two registers of eight.
#include <immintrin.h>

#include "backend/cpu/isa/product_impl.h"
#include "backend/cpu/isa/silu_impl.h"

namespace fathom::cpu {
namespace {

constexpr int kHalfLanes = 8;

__m256 half8(const std::byte* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
__m128i bytes8(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

__m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
__m256i load_pair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return _mm256_set1_epi32(pair);
}

struct Scales {
  __m256 scale;
  __m256 offset;
};

// Scales and offsets of eight lanes in one block, as lane_scale() computes them.
template <PanelScale S>
Scales block_scales(const PanelFormat& f, const std::byte* block, int half) {
  const std::byte* after = block + f.code_bytes();
  const int lane = half * kHalfLanes;
  const __m256 factor = _mm256_set1_ps(f.factor);
  if constexpr (S == PanelScale::kHalf) {
    return {_mm256_mul_ps(half8(after + 2 * lane), factor), _mm256_setzero_ps()};
  } else if constexpr (S == PanelScale::kHalfMin) {
    return {_mm256_mul_ps(half8(after + 2 * lane), factor), half8(after + 2 * (kLanes + lane))};
  } else {
    const __m256i e = _mm256_cvtepu8_epi32(bytes8(after + lane));
    const __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
    const __m256i bits = _mm256_blendv_epi8(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(0x00400000), zero);
    return {_mm256_mul_ps(_mm256_castsi256_ps(bits), factor), _mm256_setzero_ps()};
  }
}

// What the integers of a group are multiplied by, as lane_factor() computes it.
template <PanelScale S>
Scales group_factors(const PanelFormat& f, const std::byte* header, int half) {
  const int lane = half * kHalfLanes;
  const __m256 d = half8(header + 2 * lane);
  if constexpr (S == PanelScale::kGridScale) {
    return {_mm256_mul_ps(d, _mm256_set1_ps(0.5F * f.factor)), _mm256_setzero_ps()};
  } else if constexpr (has_offset(S)) {
    return {d, _mm256_xor_ps(half8(header + 2 * (kLanes + lane)), _mm256_set1_ps(-0.0F))};
  } else {
    return {d, _mm256_setzero_ps()};
  }
}

// Integer scales and mins of eight lanes in one block, as lane_integer() computes them: pairs of 16 bits, of the first
// half of the block and of the second.
struct Integers {
  __m256i scales;
  __m256i mins;
};

__m256i pair_of(__m256i low, __m256i high) { return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xAA); }

template <PanelScale S>
Integers block_integers(const PanelFormat& f, const std::byte* header, const std::byte* block, int b, int half) {
  const int sub = b % kSuperBlocks;
  const int lane = half * kHalfLanes;
  const __m256i none = _mm256_setzero_si256();
  if constexpr (S == PanelScale::kSuper) {
    const __m256i s = _mm256_cvtepi8_epi32(bytes8(header + 2 * kLanes + sub * kLanes + lane));
    return {pair_of(s, s), none};
  } else if constexpr (S == PanelScale::kSuperMin) {
    const std::byte* scales = header + 4 * kLanes + sub * kLanes + lane;
    const __m256i s = _mm256_cvtepu8_epi32(bytes8(scales));
    const __m256i m = _mm256_cvtepu8_epi32(bytes8(scales + kSuperBlocks * kLanes));
    return {pair_of(s, s), pair_of(m, m)};
  } else if constexpr (S == PanelScale::kSuperPair) {
    const std::byte* pairs = header + 4 * kLanes + 2 * sub * kLanes + lane;
    const __m256i both = pair_of(_mm256_cvtepu8_epi32(bytes8(pairs)), _mm256_cvtepu8_epi32(bytes8(pairs + kLanes)));
    return {_mm256_and_si256(both, _mm256_set1_epi16(0xF)), _mm256_srli_epi16(both, 4)};
  } else if constexpr (S == PanelScale::kSuperHalves) {
    const std::byte* pairs = header + 2 * kLanes + 2 * sub * kLanes + lane;
    return {pair_of(_mm256_cvtepi8_epi32(bytes8(pairs)), _mm256_cvtepi8_epi32(bytes8(pairs + kLanes))), none};
  } else {
    const __m128i pair = bytes8(block + f.code_bytes());
    const __m128i nibbles = _mm_and_si128(half == 0 ? pair : _mm_srli_epi16(pair, 4), _mm_set1_epi8(0xF));
    const __m256i n = _mm256_cvtepu8_epi32(nibbles);
    const __m256i s = _mm256_add_epi32(_mm256_add_epi32(n, n), _mm256_set1_epi32(1));
    return {pair_of(s, s), none};
  }
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

template <int G>
__m256i two_bits(const std::byte* planes, int half) {
  const __m256i packed = load_half(planes + G / 4 * kGroupBytes, half);
  return _mm256_and_si256(_mm256_srli_epi16(packed, G % 4 * 2), _mm256_set1_epi8(3));
}

template <int G>
__m256i nibbles(const std::byte* block, int half) {
  const __m256i packed = load_half(block + G % 4 * kGroupBytes, half);
  return _mm256_and_si256(G < 4 ? packed : _mm256_srli_epi16(packed, 4), _mm256_set1_epi8(0xF));
}

// Eight lanes of one row of the output.
void store_lanes(__m256 values, const QuantProduct& p, int row, int half) {
  float* y = p.y + row * p.ld + half * kHalfLanes;
  const int first = half * kHalfLanes;
  if (p.first_lane <= first && first + kHalfLanes <= p.last_lane) {
    _mm256_storeu_ps(y, values);
    return;
  }
  alignas(32) float lanes[kHalfLanes];
  _mm256_store_ps(lanes, values);
  for (int i = 0; i < kHalfLanes; ++i) {
    if (first + i >= p.first_lane && first + i < p.last_lane) {
      y[i] = lanes[i];
    }
  }
}

// How vpmaddubsw, which wants one unsigned operand and keeps sums of two products in 16 bits, meets a format: codes
// made unsigned by a bias, or their signs given to the activations; and how many of its results fit 16 bits together.
struct Coding {
  bool is_signed;
  int bias;
  int depth;
};

template <PanelCode C, PanelScale S>
constexpr Coding coding() {
  switch (C) {
    case PanelCode::kTwoBit:
      return {false, 0, 8};
    case PanelCode::kThreeBit:
      return {false, 4, 8};
    case PanelCode::kFiveBit:
      return {false, 0, 4};
    case PanelCode::kSixBit:
      return {false, 32, 2};
    case PanelCode::kGrid:  // magnitudes up to 43 and 62
    case PanelCode::kGrid4:
      return {true, 0, 2};
    case PanelCode::kNibble:
      if (S == PanelScale::kSuperMin || S == PanelScale::kHalfMin) {
        return {false, 0, 8};
      }
      return S == PanelScale::kPower ? Coding{false, 12, 4} : Coding{true, 0, 1};
    default:
      return {true, 0, 1};
  }
}

// What the nibbles of a format stand for, biased.
template <PanelCode C, PanelScale S>
__m256i nibble_values(const PanelFormat& f) {
  if constexpr (C == PanelCode::kNibble) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(f.values));
    return _mm256_add_epi8(_mm256_broadcastsi128_si256(values),
                           _mm256_set1_epi8(static_cast<char>(coding<C, S>().bias)));
  } else {
    return _mm256_setzero_si256();
  }
}

// The biased codes of eight lanes in group G of four columns.
template <PanelCode C, PanelScale S, int G>
__m256i load_codes(const PanelFormat& f, const std::byte* block, __m256i values, int half) {
  const int lane = half * kHalfLanes;
  if constexpr (C == PanelCode::kQ8) {
    return load_half(block + G * kGroupBytes, half);
  } else if constexpr (C == PanelCode::kTwoBit) {
    return two_bits<G>(block, half);
  } else if constexpr (C == PanelCode::kThreeBit) {
    const __m256i set = spread_mask(block + kTwoBitBlockBytes, G, half);
    return _mm256_or_si256(two_bits<G>(block, half), _mm256_and_si256(set, _mm256_set1_epi8(4)));
  } else if constexpr (C == PanelCode::kFiveBit) {
    const __m256i set = spread_mask(block + kNibbleBlockBytes, G, half);
    return _mm256_or_si256(nibbles<G>(block, half), _mm256_and_si256(set, _mm256_set1_epi8(16)));
  } else if constexpr (C == PanelCode::kSixBit) {
    return _mm256_or_si256(nibbles<G>(block, half), _mm256_slli_epi16(two_bits<G>(block + kNibbleBlockBytes, half), 4));
  } else if constexpr (C == PanelCode::kGrid) {
    const __m256i index = _mm256_cvtepu8_epi32(bytes8(block + G / 2 * kLanes + lane));
    const __m256i dword = _mm256_add_epi32(_mm256_add_epi32(index, index), _mm256_set1_epi32(G % 2));
    return with_signs(_mm256_i32gather_epi32(reinterpret_cast<const int*>(f.grid), dword, 4), block + 4 * kLanes, G,
                      half);
  } else if constexpr (C == PanelCode::kGrid4) {
    const __m256i index = _mm256_cvtepu8_epi32(bytes8(block + G * kLanes + lane));
    return with_signs(_mm256_i32gather_epi32(reinterpret_cast<const int*>(f.grid), index, 4), block + 8 * kLanes, G,
                      half);
  } else if constexpr (S == PanelScale::kSuperMin || S == PanelScale::kHalfMin) {
    return nibbles<G>(block, half);
  } else {
    return _mm256_shuffle_epi8(values, nibbles<G>(block, half));
  }
}

// --- Few rows: codes as they are ------------------------------------------------------------------------------------

// R rows of eight lanes.
template <PanelCode C, PanelScale S, int R>
void quant_rows(const QuantProduct& p, int first_row, int half) {
  constexpr Coding kCoding = coding<C, S>();
  constexpr int kDepth = has_halves(S) && kCoding.depth > 4 ? 4 : kCoding.depth;
  const PanelFormat& f = p.format;
  const __m256i values = nibble_values<C, S>(f);
  __m256 acc[R];
  __m256i dots[R];  // of a block, or of a group by integer scales
  __m256i mins[R];  // sums by mins, or by scales where codes are biased
  for (int r = 0; r < R; ++r) {
    acc[r] = _mm256_setzero_ps();
    dots[r] = _mm256_setzero_si256();
    mins[r] = _mm256_setzero_si256();
  }
  const std::byte* block = p.panel;
  const std::byte* header = p.panel;
  for (int b = 0; b < p.n_blocks; ++b) {
    if (f.header_bytes() != 0 && b % kSuperBlocks == 0) {
      header = block;
      block += f.header_bytes();
    }
    const ptrdiff_t at = QuantTile::scale_at(b, first_row);
    const int8_t* x = p.x.codes + QuantTile::code_at(b, first_row);
    Integers n{_mm256_set1_epi16(1), _mm256_setzero_si256()};
    if constexpr (has_integers(S)) {
      n = block_integers<S>(f, header, block, b, half);
    }
    __m256i pairs[R];
    unrolled<8>([&]<int G>() {
      const __m256i w = load_codes<C, S, G>(f, block, values, half);
      [[maybe_unused]] const __m256i magnitude = _mm256_abs_epi8(w);
      for (int r = 0; r < R; ++r) {
        int32_t x4;
        __builtin_memcpy(&x4, x + r * kTileColumns + 4 * G, 4);
        const __m256i xv = _mm256_set1_epi32(x4);
        const __m256i two =
            kCoding.is_signed ? _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(xv, w)) : _mm256_maddubs_epi16(w, xv);
        pairs[r] = G % kDepth == 0 ? two : _mm256_add_epi16(pairs[r], two);
      }
      if constexpr (G % kDepth == kDepth - 1) {
        const __m256i scales = !has_halves(S) ? n.scales
                               : G < 4        ? pair_of(n.scales, n.scales)
                                              : _mm256_blend_epi16(_mm256_srli_epi32(n.scales, 16), n.scales, 0xAA);
        for (int r = 0; r < R; ++r) {
          dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs[r], scales));
        }
      }
    });
    if constexpr (has_integers(S)) {
      if constexpr (has_offset(S) || kCoding.bias != 0) {
        for (int r = 0; r < R; ++r) {
          mins[r] = _mm256_add_epi32(
              mins[r], _mm256_madd_epi16(has_offset(S) ? n.mins : n.scales, load_pair(p.x.sums + 2 * (at + r))));
        }
      }
      if (b % kGroupBlocks == kGroupBlocks - 1 || b == p.n_blocks - 1) {
        const Scales factors = group_factors<S>(f, header, half);
        for (int r = 0; r < R; ++r) {
          const __m256 x_scale = _mm256_set1_ps(p.x.scales[at + r]);
          if constexpr (kCoding.bias != 0) {
            dots[r] = _mm256_sub_epi32(dots[r], _mm256_mullo_epi32(mins[r], _mm256_set1_epi32(kCoding.bias)));
          }
          acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_mul_ps(x_scale, factors.scale), acc[r]);
          if constexpr (has_offset(S)) {
            acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(mins[r]), _mm256_mul_ps(x_scale, factors.offset), acc[r]);
          }
          dots[r] = _mm256_setzero_si256();
          mins[r] = _mm256_setzero_si256();
        }
      }
    } else {
      const Scales s = block_scales<S>(f, block, half);
      for (int r = 0; r < R; ++r) {
        const float xs = p.x.scales[at + r];
        const int sum = p.x.sums[2 * (at + r)] + p.x.sums[2 * (at + r) + 1];
        if constexpr (kCoding.bias != 0) {
          dots[r] = _mm256_sub_epi32(dots[r], _mm256_set1_epi32(kCoding.bias * sum));
        }
        acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_mul_ps(_mm256_set1_ps(xs), s.scale), acc[r]);
        if constexpr (has_offset(S)) {
          acc[r] = _mm256_fmadd_ps(s.offset, _mm256_set1_ps(xs * static_cast<float>(sum)), acc[r]);
        }
        dots[r] = _mm256_setzero_si256();
      }
    }
    block += f.block_bytes();
  }
  for (int r = 0; r < R; ++r) {
    store_lanes(acc[r], p, first_row + r, half);
  }
}

void quant_tile(const QuantProduct& p) noexcept {
  with_format(p.format, [&]<PanelCode C, PanelScale S>() {
    for (int half = 0; half < 2; ++half) {
      int row = 0;
      for (; row + 4 <= p.n_rows; row += 4) {
        quant_rows<C, S, 4>(p, row, half);
      }
      for (; row < p.n_rows; ++row) {
        quant_rows<C, S, 1>(p, row, half);
      }
    }
  });
}

// --- Many rows: code times integer scale in 16 bits, prepared once ---------------------------------------------------

// A panel and a tile of rows prepared for vpmaddwd. Pairs are columns 0 and 2 (even), 1 and 3 (odd) of a group of four.
struct WideProduct {
  int16_t* codes;  // [blocks][8 groups][even, odd][16 lanes][2]
  int32_t* mins;   // [blocks][16]: pairs, of integer scales
  float* scales;   // [blocks][16]: of blocks, or of groups at their first block
  float* offsets;
  int16_t* x;  // [16 rows][blocks][even, odd][8 groups][2]
};

__m256i even_columns(__m256i bytes) { return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8); }
__m256i odd_columns(__m256i bytes) { return _mm256_srai_epi16(bytes, 8); }

template <PanelCode C, PanelScale S>
void widen_panel(const QuantProduct& p, const WideProduct& out) {
  const PanelFormat& f = p.format;
  const __m256i values = nibble_values<C, S>(f);
  const __m256i bias = _mm256_set1_epi8(static_cast<char>(coding<C, S>().bias));
  for (int b = 0; b < p.n_blocks; ++b) {
    const std::byte* block = p.panel + f.block_offset(b);
    for (int half = 0; half < 2; ++half) {
      const int at = b * kLanes + half * kHalfLanes;
      Integers n{_mm256_set1_epi16(1), _mm256_setzero_si256()};
      if constexpr (has_integers(S)) {
        const std::byte* header = p.panel + f.header_offset(b);
        n = block_integers<S>(f, header, block, b, half);
        _mm256_store_si256(reinterpret_cast<__m256i*>(out.mins + at), n.mins);
        if (b % kGroupBlocks == 0) {
          const Scales s = group_factors<S>(f, header, half);
          _mm256_store_ps(out.scales + at, s.scale);
          _mm256_store_ps(out.offsets + at, s.offset);
        }
      } else {
        const Scales s = block_scales<S>(f, block, half);
        _mm256_store_ps(out.scales + at, s.scale);
        _mm256_store_ps(out.offsets + at, s.offset);
      }
      const __m256i s_low = pair_of(n.scales, n.scales);
      const __m256i s_high = _mm256_blend_epi16(_mm256_srli_epi32(n.scales, 16), n.scales, 0xAA);
      unrolled<8>([&]<int G>() {
        const __m256i w = _mm256_sub_epi8(load_codes<C, S, G>(f, block, values, half), bias);
        int16_t* to = out.codes + ((b * 8 + G) * 2 * kLanes + half * kHalfLanes) * 2;
        const __m256i scale = G < 4 ? s_low : s_high;
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_mullo_epi16(even_columns(w), scale));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + 2 * kLanes), _mm256_mullo_epi16(odd_columns(w), scale));
      });
    }
  }
}

void widen_rows(const QuantProduct& p, int16_t* out) {
  for (int r = 0; r < p.n_rows; ++r) {
    for (int b = 0; b < p.n_blocks; ++b) {
      const __m256i codes = load32(p.x.codes + QuantTile::code_at(b, r));
      auto* to = reinterpret_cast<__m256i*>(out + (static_cast<ptrdiff_t>(r) * p.n_blocks + b) * kBlockColumns);
      _mm256_store_si256(to, even_columns(codes));
      _mm256_store_si256(to + 1, odd_columns(codes));
    }
  }
}

// R rows of all 16 lanes.
template <bool kIntegers, bool kOffsets, int R>
void wide_rows(const QuantProduct& p, const WideProduct& w, int first_row) {
  __m256 acc[R][2];
  __m256i dots[R][2];
  __m256i mins[R][2];
  for (int r = 0; r < R; ++r) {
    for (int h = 0; h < 2; ++h) {
      acc[r][h] = _mm256_setzero_ps();
      dots[r][h] = _mm256_setzero_si256();
      mins[r][h] = _mm256_setzero_si256();
    }
  }
  const ptrdiff_t row = static_cast<ptrdiff_t>(p.n_blocks) * kBlockColumns;
  const int16_t* x = w.x + first_row * row;
  for (int b = 0; b < p.n_blocks; ++b) {
    for (int i = 0; i < 16; ++i) {
      const int16_t* codes = w.codes + (b * 16 + i) * 2 * kLanes;
      const __m256i w0 = load32(codes);
      const __m256i w1 = load32(codes + kLanes);
      for (int r = 0; r < R; ++r) {
        const __m256i xv = load_pair(x + r * row + b * kBlockColumns + (i % 2 * 8 + i / 2) * 2);
        dots[r][0] = _mm256_add_epi32(dots[r][0], _mm256_madd_epi16(w0, xv));
        dots[r][1] = _mm256_add_epi32(dots[r][1], _mm256_madd_epi16(w1, xv));
      }
    }
    const ptrdiff_t at = QuantTile::scale_at(b, first_row);
    if constexpr (kIntegers && kOffsets) {
      for (int r = 0; r < R; ++r) {
        const __m256i sums = load_pair(p.x.sums + 2 * (at + r));
        for (int h = 0; h < 2; ++h) {
          const __m256i m = load32(w.mins + b * kLanes + h * kHalfLanes);
          mins[r][h] = _mm256_add_epi32(mins[r][h], _mm256_madd_epi16(m, sums));
        }
      }
    }
    if (kIntegers && b % kGroupBlocks != kGroupBlocks - 1 && b != p.n_blocks - 1) {
      continue;
    }
    const int scales_at = (kIntegers ? b / kGroupBlocks * kGroupBlocks : b) * kLanes;
    for (int h = 0; h < 2; ++h) {
      const __m256 scale = _mm256_load_ps(w.scales + scales_at + h * kHalfLanes);
      const __m256 offset = _mm256_load_ps(w.offsets + scales_at + h * kHalfLanes);
      for (int r = 0; r < R; ++r) {
        const float xs = p.x.scales[at + r];
        const __m256 x_scale = _mm256_set1_ps(xs);
        acc[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][h]), _mm256_mul_ps(x_scale, scale), acc[r][h]);
        if constexpr (kIntegers && kOffsets) {
          acc[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(mins[r][h]), _mm256_mul_ps(x_scale, offset), acc[r][h]);
        } else if constexpr (kOffsets) {
          const int sum = p.x.sums[2 * (at + r)] + p.x.sums[2 * (at + r) + 1];
          acc[r][h] = _mm256_fmadd_ps(offset, _mm256_set1_ps(xs * static_cast<float>(sum)), acc[r][h]);
        }
        dots[r][h] = _mm256_setzero_si256();
        mins[r][h] = _mm256_setzero_si256();
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    store_lanes(acc[r][0], p, first_row + r, 0);
    store_lanes(acc[r][1], p, first_row + r, 1);
  }
}

void quant_panel(const QuantPanelProduct& p) noexcept {
  constexpr int kFewRows = 12;  // below this, widening a panel costs more than it saves
  if (p.n_rows < kFewRows) {
    return quant_tile(tile_at(p, 0));
  }
  with_format(p.first.format, [&]<PanelCode C, PanelScale S>() {
    const ptrdiff_t n = p.first.n_blocks;
    WideProduct w;
    w.codes = reinterpret_cast<int16_t*>(p.workspace);
    w.mins = reinterpret_cast<int32_t*>(w.codes + n * kQ8BlockBytes);
    w.scales = reinterpret_cast<float*>(w.mins + n * kLanes);
    w.offsets = w.scales + n * kLanes;
    w.x = reinterpret_cast<int16_t*>(w.offsets + n * kLanes);
    widen_panel<C, S>(p.first, w);
    for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
      const QuantProduct q = tile_at(p, tile);
      widen_rows(q, w.x);
      int row = 0;
      for (; row + 4 <= q.n_rows; row += 4) {
        wide_rows<has_integers(S), has_offset(S), 4>(q, w, row);
      }
      for (; row < q.n_rows; ++row) {
        wide_rows<has_integers(S), has_offset(S), 1>(q, w, row);
      }
    }
  });
}

void quantize_row(const float* x, int n, int group, int row, const QuantTileOut& tile) noexcept {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256 round = _mm256_set1_ps(kRound);
  const int n_blocks = n / kBlockColumns;
  for (int first = 0; first < n_blocks; first += group) {
    const int last = first + group < n_blocks ? first + group : n_blocks;
    __m256 max = _mm256_setzero_ps();
    for (int i = first * kBlockColumns; i < last * kBlockColumns; i += 8) {
      max = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)), max);
    }
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    const float amax = _mm_cvtss_f32(m);
    const __m256 inverse = _mm256_set1_ps(amax > 0.0F ? 127.0F / amax : 0.0F);
    for (int b = first; b < last; ++b) {
      const auto code = [&](int i) {
        const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + b * kBlockColumns + 8 * i), inverse);
        return _mm256_cvtps_epi32(_mm256_sub_ps(_mm256_add_ps(scaled, round), round));
      };
      // Packing works within halves of a register: quarters of eight codes come out as 0 2 4 6, 1 3 5 7.
      const __m256i low = _mm256_packs_epi32(code(0), code(1));
      const __m256i high = _mm256_packs_epi32(code(2), code(3));
      const __m256i bytes =
          _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.codes + QuantTile::code_at(b, row)), bytes);
      const __m256i ones = _mm256_set1_epi16(1);
      const auto sum = [&](__m256i words) {
        const __m256i s = _mm256_madd_epi16(words, ones);
        __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
        t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4E));
        t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xB1));
        return static_cast<int16_t>(_mm_cvtsi128_si32(t));
      };
      const ptrdiff_t at = QuantTile::scale_at(b, row);
      tile.scales[at] = amax * (1.0F / 127.0F);
      tile.sums[2 * at] = sum(low);
      tile.sums[2 * at + 1] = sum(high);
    }
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
