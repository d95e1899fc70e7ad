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

// Tiles 0, 1: two sums [16 rows][16 lanes]; 2, 3: activations [16][columns]; 4, 5: weights [columns / 4 groups][64].
void configure_tiles(int columns) {
  TileConfig config;
  for (int t = 0; t < 6; ++t) {
    const bool activations = t == 2 || t == 3;
    const bool weights = t >= 4;
    config.row_bytes[t] = static_cast<uint16_t>(activations ? columns : kGroupBytes);
    config.rows[t] = static_cast<uint8_t>(weights ? columns / 4 : kTileRows);
  }
  // The intrinsic tells the compiler that it reads eight bytes of the 64; this makes it keep them all.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// A panel as the tiles want it: signed codes [blocks][8][64], scales and offsets [parts][16], a part being a block or
// half of one.
struct Expanded {
  int8_t* codes;
  float* scales;
  float* offsets;
};

template <PanelCode C, PanelScale S>
void expand(const QuantProduct& p, const Expanded& out) {
  const PanelFormat& f = p.format;
  for (int b = 0; b < p.n_blocks; ++b) {
    const std::byte* block = p.panel + f.block_offset(b);
    __m512i w[8];
    load_codes<C>(f, block, w);
    for (int g = 0; g < 8; ++g) {
      _mm512_store_si512(out.codes + b * kQ8BlockBytes + g * kGroupBytes, w[g]);
    }
    constexpr int kParts = has_halves(S) ? 2 : 1;
    for (int h = 0; h < kParts; ++h) {
      const Scales s = block_scales<S>(f, p.panel, block, b, h);
      _mm512_store_ps(out.scales + (b * kParts + h) * kLanes, s.scale);
      _mm512_store_ps(out.offsets + (b * kParts + h) * kLanes, s.offset);
    }
  }
}

// acc += the float value of one part's integer sums, row by row. `half` is 0 or 1 with scales per half block, else -1.
template <bool kOffsets>
inline void add_part(const int32_t* sums, const QuantProduct& p, const Expanded& w, int part, int b, int half,
                     __m512 (&acc)[kTileRows]) {
  const __m512 scale = _mm512_load_ps(w.scales + part * kLanes);
  const float* xs = p.x.scales + b * kTileRows;
  for (int r = 0; r < kTileRows; ++r) {
    const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * kLanes));
    acc[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(_mm512_set1_ps(xs[r]), scale), acc[r]);
  }
  if constexpr (kOffsets) {
    const __m512 offset = _mm512_load_ps(w.offsets + part * kLanes);
    const int32_t* all = p.x.sums + b * kTileRows;
    const int32_t* low = p.x.low_sums + b * kTileRows;
    for (int r = 0; r < kTileRows; ++r) {
      const int32_t sum = half < 0 ? all[r] : half == 0 ? low[r] : all[r] - low[r];
      acc[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(xs[r] * static_cast<float>(sum)), acc[r]);
    }
  }
}

// One part's integer sums into tile kSum, by way of tiles kX and kW.
#define FATHOM_MULTIPLY_PART(kSum, kX, kW, x, w) \
  do {                                           \
    _tile_zero(kSum);                            \
    _tile_loadd(kX, x, kBlockColumns);           \
    _tile_loadd(kW, w, kGroupBytes);             \
    _tile_dpbssd(kSum, kX, kW);                  \
  } while (false)

template <bool kOffsets, bool kHalves>
void multiply_tile(const QuantProduct& p, const Expanded& w) {
  alignas(64) int32_t sums[2][kTileRows * kLanes];
  __m512 acc[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    acc[r] = _mm512_setzero_ps();
  }
  // Two parts at a time, so that the tiles of one work while the other's sums become floats.
  const int parts = kHalves ? 2 * p.n_blocks : p.n_blocks;
  const auto x_of = [&](int part) {
    return kHalves ? p.x.codes + part / 2 * kTileRows * kBlockColumns + part % 2 * (kBlockColumns / 2)
                   : p.x.codes + part * kTileRows * kBlockColumns;
  };
  const auto w_of = [&](int part) { return w.codes + part * (kHalves ? kQ8BlockBytes / 2 : kQ8BlockBytes); };
  const auto add = [&](const int32_t* part_sums, int part) {
    add_part<kOffsets>(part_sums, p, w, part, kHalves ? part / 2 : part, kHalves ? part % 2 : -1, acc);
  };
  int part = 0;
  for (; part + 2 <= parts; part += 2) {
    FATHOM_MULTIPLY_PART(0, 2, 4, x_of(part), w_of(part));
    FATHOM_MULTIPLY_PART(1, 3, 5, x_of(part + 1), w_of(part + 1));
    _tile_stored(0, sums[0], kGroupBytes);
    _tile_stored(1, sums[1], kGroupBytes);
    add(sums[0], part);
    add(sums[1], part + 1);
  }
  if (part < parts) {
    FATHOM_MULTIPLY_PART(0, 2, 4, x_of(part), w_of(part));
    _tile_stored(0, sums[0], kGroupBytes);
    add(sums[0], part);
  }
  const __mmask16 mask = lane_mask(p.first_lane, p.last_lane);
  for (int r = 0; r < p.n_rows; ++r) {
    _mm512_mask_storeu_ps(p.y + r * p.ld, mask, acc[r]);
  }
}

void quant_panel(const QuantPanelProduct& p) noexcept {
  if (p.n_rows < kFewRows) {
    return quant_tile(tile_at(p, 0));
  }
  const int n = p.first.n_blocks;
  Expanded w;
  w.codes = reinterpret_cast<int8_t*>(p.workspace);
  w.scales = reinterpret_cast<float*>(p.workspace + n * kQ8BlockBytes);
  w.offsets = w.scales + 2 * n * kLanes;
  with_format(p.first.format, [&]<PanelCode C, PanelScale S>() { expand<C, S>(p.first, w); });
  const bool halves = has_halves(p.first.format.scale);
  const bool offsets = has_offset(p.first.format.scale);
  configure_tiles(halves ? kBlockColumns / 2 : kBlockColumns);
  for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
    const QuantProduct q = tile_at(p, tile);
    if (halves && offsets) {
      multiply_tile<true, true>(q, w);
    } else if (halves) {
      multiply_tile<false, true>(q, w);
    } else if (offsets) {
      multiply_tile<true, false>(q, w);
    } else {
      multiply_tile<false, false>(q, w);
    }
  }
  _tile_release();
}

}  // namespace

const CpuKernels& kernels_amx() noexcept {
  static const CpuKernels table = {
      "amx", {quantize_row, quant_tile, quant_panel, float_rows, swiglu}, &kAttentionAmx, &kRowAvx512};
  return table;
}

}  // namespace fathom::cpu
