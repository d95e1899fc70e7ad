// AMX int8 tiles for many rows; AVX-512 for few. Both compute the same exact integers, and the same floats from them.
#include <immintrin.h>

#include "backend/cpu/isa/avx512_impl.h"

namespace fathom::cpu {
namespace {

using namespace avx512;

constexpr int kFewRows = 8;  // below this, expanding a panel costs more than the tiles save

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0 to 3: sums [16 rows][16 lanes]; 4, 5: activations [16][columns]; 6, 7: weights [columns / 4 groups][64].
void configure_tiles(int columns) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    const bool activations = t == 4 || t == 5;
    const bool weights = t >= 6;
    config.row_bytes[t] = static_cast<uint16_t>(activations ? columns : kGroupBytes);
    config.rows[t] = static_cast<uint8_t>(weights ? columns / 4 : kTileRows);
  }
  // The intrinsic tells the compiler that it reads eight bytes of the 64; this makes it keep them all.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// Codes without their bias.
template <PanelCode C, PanelScale S>
void load_signed_codes(const PanelFormat& f, const std::byte* block, __m512i (&w)[8]) {
  load_codes<C, S>(f, block, w);
  for (int g = 0; g < 8; ++g) {
    w[g] = _mm512_sub_epi8(w[g], _mm512_set1_epi8(static_cast<char>(code_bias<C, S>())));
  }
}

// --- Formats whose blocks have scales of their own: 32 columns of a tile, then floats ------------------------------

// A panel as the tiles want it: signed codes [blocks][8][64], scales and offsets [blocks][16].
struct BlockPanel {
  int8_t* codes;
  float* scales;
  float* offsets;
};

template <PanelCode C, PanelScale S>
void expand_blocks(const QuantProduct& p, const BlockPanel& out) {
  const PanelFormat& f = p.format;
  for (int b = 0; b < p.n_blocks; ++b) {
    const std::byte* block = p.panel + f.block_offset(b);
    __m512i w[8];
    load_signed_codes<C, S>(f, block, w);
    for (int g = 0; g < 8; ++g) {
      _mm512_store_si512(out.codes + b * kQ8BlockBytes + g * kGroupBytes, w[g]);
    }
    const Scales s = block_scales<S>(f, block);
    _mm512_store_ps(out.scales + b * kLanes, s.scale);
    _mm512_store_ps(out.offsets + b * kLanes, s.offset);
  }
}

// acc += the float value of one block's integer sums, row by row.
template <bool kOffsets>
inline void add_block(const int32_t* sums, const QuantProduct& p, const BlockPanel& w, int b,
                      __m512 (&acc)[kTileRows]) {
  const __m512 scale = _mm512_load_ps(w.scales + b * kLanes);
  const float* xs = p.x.scales + b * kTileRows;
  for (int r = 0; r < kTileRows; ++r) {
    const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * kLanes));
    acc[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(_mm512_set1_ps(xs[r]), scale), acc[r]);
  }
  if constexpr (kOffsets) {
    const __m512 offset = _mm512_load_ps(w.offsets + b * kLanes);
    const int16_t* pairs = p.x.sums + 2 * b * kTileRows;
    for (int r = 0; r < kTileRows; ++r) {
      const auto sum = static_cast<float>(pairs[2 * r] + pairs[2 * r + 1]);
      acc[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(xs[r] * sum), acc[r]);
    }
  }
}

// One block's integer sums into tile kSum, by way of tiles kX and kW.
#define FATHOM_MULTIPLY_BLOCK(kSum, kX, kW, block)                                         \
  do {                                                                                     \
    _tile_zero(kSum);                                                                      \
    _tile_loadd(kX, p.x.codes + QuantTile::code_at(block, 0), kTileColumns);               \
    _tile_loadd(kW, w.codes + static_cast<ptrdiff_t>(block) * kQ8BlockBytes, kGroupBytes); \
    _tile_dpbssd(kSum, kX, kW);                                                            \
  } while (false)

template <bool kOffsets>
void multiply_blocks(const QuantProduct& p, const BlockPanel& w) {
  alignas(64) int32_t sums[2][kTileRows * kLanes];
  __m512 acc[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    acc[r] = _mm512_setzero_ps();
  }
  // Two blocks at a time, so that the tiles of one work while the other's sums become floats.
  int b = 0;
  for (; b + 2 <= p.n_blocks; b += 2) {
    FATHOM_MULTIPLY_BLOCK(0, 4, 6, b);
    FATHOM_MULTIPLY_BLOCK(1, 5, 7, b + 1);
    _tile_stored(0, sums[0], kGroupBytes);
    _tile_stored(1, sums[1], kGroupBytes);
    add_block<kOffsets>(sums[0], p, w, b, acc);
    add_block<kOffsets>(sums[1], p, w, b + 1, acc);
  }
  if (b < p.n_blocks) {
    FATHOM_MULTIPLY_BLOCK(0, 4, 6, b);
    _tile_stored(0, sums[0], kGroupBytes);
    add_block<kOffsets>(sums[0], p, w, b, acc);
  }
  const __mmask16 mask = lane_mask(p.first_lane, p.last_lane);
  for (int r = 0; r < p.n_rows; ++r) {
    _mm512_mask_storeu_ps(p.y + r * p.ld, mask, acc[r]);
  }
}

template <PanelCode C, PanelScale S>
void panel_of_blocks(const QuantPanelProduct& p) {
  const int n = p.first.n_blocks;
  BlockPanel w;
  w.codes = reinterpret_cast<int8_t*>(p.workspace);
  w.scales = reinterpret_cast<float*>(p.workspace + static_cast<ptrdiff_t>(n) * kQ8BlockBytes);
  w.offsets = w.scales + static_cast<ptrdiff_t>(n) * kLanes;
  expand_blocks<C, S>(p.first, w);
  configure_tiles(kBlockColumns);
  for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
    multiply_blocks<has_offset(S)>(tile_at(p, tile), w);
  }
}

// --- Formats with integer scales: code times scale in one or two int8 digits, whole groups before the floats --------

// Digits of code * scale: code * scale = 128 * high + low, 0 <= low < 128; or the product alone where it fits.
template <PanelCode C>
constexpr int digits() {
  return C == PanelCode::kTwoBit || C == PanelCode::kThreeBit ? 1 : 2;
}
// -4 * -32 is the one product that does not fit: all are negated.
template <PanelCode C>
constexpr bool negated() {
  return C == PanelCode::kThreeBit;
}

// A panel as the tiles want it: digits [block pairs][digits][16][64], pairs of mins [blocks][16], factors [groups][16].
struct GroupPanel {
  int8_t* digits;
  int32_t* mins;
  float* scales;
  float* offsets;
};

template <PanelCode C, PanelScale S>
void expand_groups(const QuantProduct& p, const GroupPanel& out) {
  const PanelFormat& f = p.format;
  constexpr int kDigits = digits<C>();
  const __m512i low_byte = _mm512_set1_epi16(0xFF);
  const __m512i low_digit = _mm512_set1_epi16(0x7F);
  for (int b = 0; b < (p.n_blocks + 1) / 2 * 2; ++b) {
    int8_t* to = out.digits + static_cast<ptrdiff_t>(b / 2) * kDigits * 2 * kQ8BlockBytes + b % 2 * kQ8BlockBytes;
    if (b == p.n_blocks) {  // the second half of the last pair
      for (int g = 0; g < 8; ++g) {
        for (int digit = 0; digit < kDigits; ++digit) {
          _mm512_store_si512(to + digit * 2 * kQ8BlockBytes + g * kGroupBytes, _mm512_setzero_si512());
        }
      }
      break;
    }
    const std::byte* block = p.panel + f.block_offset(b);
    const std::byte* header = p.panel + f.header_offset(b);
    const Integers n = block_integers<S>(f, header, block, b);
    __m512i s_low = pair_of(n.scales, n.scales);
    __m512i s_high =
        has_halves(S) ? _mm512_mask_blend_epi16(0x55555555, n.scales, _mm512_srli_epi32(n.scales, 16)) : s_low;
    if constexpr (negated<C>()) {
      s_low = _mm512_sub_epi16(_mm512_setzero_si512(), s_low);
      s_high = _mm512_sub_epi16(_mm512_setzero_si512(), s_high);
    }
    __m512i w[8];
    load_signed_codes<C, S>(f, block, w);
    for (int g = 0; g < 8; ++g) {
      const __m512i scale = g < 4 ? s_low : s_high;
      const __m512i even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(w[g], 8), 8), scale);
      const __m512i odd = _mm512_mullo_epi16(_mm512_srai_epi16(w[g], 8), scale);
      const auto bytes = [&](__m512i a, __m512i b_, __m512i mask) {
        return _mm512_or_si512(_mm512_and_si512(a, mask), _mm512_slli_epi16(_mm512_and_si512(b_, mask), 8));
      };
      if constexpr (kDigits == 1) {
        _mm512_store_si512(to + g * kGroupBytes, bytes(even, odd, low_byte));
      } else {
        _mm512_store_si512(to + g * kGroupBytes, bytes(even, odd, low_digit));
        _mm512_store_si512(to + 2 * kQ8BlockBytes + g * kGroupBytes,
                           bytes(_mm512_srai_epi16(even, 7), _mm512_srai_epi16(odd, 7), low_byte));
      }
    }
    if constexpr (has_offset(S)) {
      _mm512_store_si512(out.mins + b * kLanes, n.mins);
    }
    if (b % kGroupBlocks == 0) {
      const Scales factors = group_factors<S>(f, header);
      const __m512 sign = _mm512_set1_ps(negated<C>() ? -0.0F : 0.0F);
      _mm512_store_ps(out.scales + b / kGroupBlocks * kLanes, _mm512_xor_ps(factors.scale, sign));
      _mm512_store_ps(out.offsets + b / kGroupBlocks * kLanes, factors.offset);
    }
  }
}

// acc [16][16] += the float value of a group's sums, row by row. `first`: the group's first block.
template <int kDigits, bool kOffsets>
inline void add_group(const int32_t (&sums)[2][kTileRows * kLanes], const QuantProduct& p, const GroupPanel& w,
                      int first, float* acc) {
  const int group = first / kGroupBlocks;
  const __m512 scale = _mm512_load_ps(w.scales + group * kLanes);
  const __m512 offset = _mm512_load_ps(w.offsets + group * kLanes);
  const float* xs = p.x.scales + first * kTileRows;
  const int last = first + kGroupBlocks < p.n_blocks ? first + kGroupBlocks : p.n_blocks;
  for (int r = 0; r < kTileRows; ++r) {
    const __m512 x_scale = _mm512_set1_ps(xs[r]);
    __m512i dots = _mm512_load_si512(sums[0] + r * kLanes);
    if constexpr (kDigits == 2) {
      dots = _mm512_add_epi32(dots, _mm512_slli_epi32(_mm512_load_si512(sums[1] + r * kLanes), 7));
    }
    __m512 a = _mm512_load_ps(acc + r * kLanes);
    a = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(x_scale, scale), a);
    if constexpr (kOffsets) {
      __m512i mins = _mm512_setzero_si512();
      for (int b = first; b < last; ++b) {
        int32_t pair;
        __builtin_memcpy(&pair, p.x.sums + 2 * QuantTile::scale_at(b, r), sizeof pair);
        mins = _mm512_dpwssd_epi32(mins, _mm512_load_si512(w.mins + b * kLanes), _mm512_set1_epi32(pair));
      }
      a = _mm512_fmadd_ps(_mm512_cvtepi32_ps(mins), _mm512_mul_ps(x_scale, offset), a);
    }
    _mm512_store_ps(acc + r * kLanes, a);
  }
}

// Two tiles of rows at once, so that the weights are loaded half as often; where there is one, `p[1]` is `p[0]`.
template <int kDigits, bool kOffsets>
void multiply_groups(const QuantProduct (&p)[2], const GroupPanel& w) {
  alignas(64) int32_t sums[2][2][kTileRows * kLanes];
  alignas(64) float acc[2][kTileRows * kLanes];
  for (int i = 0; i < 2 * kTileRows; ++i) {
    _mm512_store_ps(acc[0] + i * kLanes, _mm512_setzero_ps());
  }
  for (int first = 0; first < p[0].n_blocks; first += kGroupBlocks) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kDigits == 2) {
      _tile_zero(2);
      _tile_zero(3);
    }
    const int last = first + kGroupBlocks < p[0].n_blocks ? first + kGroupBlocks : p[0].n_blocks;
    for (int b = first; b < last; b += 2) {
      const int8_t* digits = w.digits + static_cast<ptrdiff_t>(b / 2) * kDigits * 2 * kQ8BlockBytes;
      _tile_loadd(4, p[0].x.codes + QuantTile::code_at(b, 0), kTileColumns);
      _tile_loadd(6, digits, kGroupBytes);
      _tile_dpbssd(0, 4, 6);
      _tile_loadd(5, p[1].x.codes + QuantTile::code_at(b, 0), kTileColumns);
      _tile_dpbssd(1, 5, 6);
      if constexpr (kDigits == 2) {
        _tile_loadd(7, digits + 2 * kQ8BlockBytes, kGroupBytes);
        _tile_dpbssd(2, 4, 7);
        _tile_dpbssd(3, 5, 7);
      }
    }
    _tile_stored(0, sums[0][0], kGroupBytes);
    _tile_stored(1, sums[1][0], kGroupBytes);
    if constexpr (kDigits == 2) {
      _tile_stored(2, sums[0][1], kGroupBytes);
      _tile_stored(3, sums[1][1], kGroupBytes);
    }
    add_group<kDigits, kOffsets>(sums[0], p[0], w, first, acc[0]);
    add_group<kDigits, kOffsets>(sums[1], p[1], w, first, acc[1]);
  }
  const __mmask16 mask = lane_mask(p[0].first_lane, p[0].last_lane);
  for (int t = 0; t < 2; ++t) {
    for (int r = 0; r < p[t].n_rows; ++r) {
      _mm512_mask_storeu_ps(p[t].y + r * p[t].ld, mask, _mm512_load_ps(acc[t] + r * kLanes));
    }
  }
}

template <PanelCode C, PanelScale S>
void panel_of_groups(const QuantPanelProduct& p) {
  constexpr int kDigits = digits<C>();
  const ptrdiff_t n = (p.first.n_blocks + 1) / 2 * 2;
  GroupPanel w;
  w.digits = reinterpret_cast<int8_t*>(p.workspace);
  w.mins = reinterpret_cast<int32_t*>(p.workspace + n * kDigits * kQ8BlockBytes);
  w.scales = reinterpret_cast<float*>(w.mins + n * kLanes);
  w.offsets = w.scales + n * kLanes;
  expand_groups<C, S>(p.first, w);
  configure_tiles(kTileColumns);
  for (int tile = 0; tile * kTileRows < p.n_rows; tile += 2) {
    const bool two = (tile + 1) * kTileRows < p.n_rows;
    const QuantProduct pair[2] = {tile_at(p, tile), tile_at(p, two ? tile + 1 : tile)};
    multiply_groups<kDigits, has_offset(S)>(pair, w);
  }
}

void quant_panel(const QuantPanelProduct& p) noexcept {
  if (p.n_rows < kFewRows) {
    return quant_tile(tile_at(p, 0));
  }
  with_format(p.first.format, [&]<PanelCode C, PanelScale S>() {
    if constexpr (has_integers(S)) {
      panel_of_groups<C, S>(p);
    } else {
      panel_of_blocks<C, S>(p);
    }
  });
  _tile_release();
}

}  // namespace

const CpuKernels& kernels_amx() noexcept {
  static const CpuKernels table = {
      "amx", {quantize_row, quant_tile, quant_panel, float_rows, swiglu}, &kAttentionAmx, &kRowAvx512};
  return table;
}

}  // namespace fathom::cpu
