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

// Tiles 0, 1: sums of two consecutive blocks [16 rows][16 lanes]; 2, 3: activations [16][32]; 4, 5: weights [8
// groups][64].
void configure_tiles() {
  TileConfig config;
  for (int t = 0; t < 6; ++t) {
    const bool activations = t == 2 || t == 3;
    const bool weights = t >= 4;
    config.row_bytes[t] = activations ? kBlockColumns : kGroupBytes;
    config.rows[t] = weights ? kBlockColumns / 4 : kTileRows;
  }
  // The intrinsic tells the compiler that it reads eight bytes of the 64; this makes it keep them all.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// A panel as the tiles want it: signed codes [blocks][8][64], scales and offsets [blocks][16].
struct Expanded {
  int8_t* codes;
  float* scales;
  float* offsets;
};

template <PanelCode C, PanelScale S>
void expand(const QuantProduct& p, const Expanded& out) {
  const PanelFormat& f = p.format;
  const __m512i values = C == PanelCode::kNibble
                             ? _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(f.values)))
                             : _mm512_setzero_si512();
  for (int b = 0; b < p.n_blocks; ++b) {
    const std::byte* block = p.panel + f.block_offset(b);
    __m512i w[8];
    load_codes<C>(block, values, w);
    for (int g = 0; g < 8; ++g) {
      _mm512_store_si512(out.codes + b * kQ8BlockBytes + g * kGroupBytes, w[g]);
    }
    const Scales s = block_scales<S>(f, p.panel, block, b);
    _mm512_store_ps(out.scales + b * kLanes, s.scale);
    _mm512_store_ps(out.offsets + b * kLanes, s.offset);
  }
}

// acc += the float value of one block's integer sums, row by row.
template <bool kOffsets>
inline void add_block(const int32_t* sums, const QuantProduct& p, const Expanded& w, int b, __m512 (&acc)[kTileRows]) {
  const __m512 scale = _mm512_load_ps(w.scales + b * kLanes);
  const float* xs = p.x.scales + b * kTileRows;
  for (int r = 0; r < kTileRows; ++r) {
    const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * kLanes));
    acc[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(_mm512_set1_ps(xs[r]), scale), acc[r]);
  }
  if constexpr (kOffsets) {
    const __m512 offset = _mm512_load_ps(w.offsets + b * kLanes);
    const int32_t* x_sums = p.x.sums + b * kTileRows;
    for (int r = 0; r < kTileRows; ++r) {
      acc[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(xs[r] * static_cast<float>(x_sums[r])), acc[r]);
    }
  }
}

template <bool kOffsets>
void multiply_tile(const QuantProduct& p, const Expanded& w) {
  alignas(64) int32_t sums[2][kTileRows * kLanes];
  __m512 acc[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    acc[r] = _mm512_setzero_ps();
  }
  int b = 0;
  for (; b + 2 <= p.n_blocks; b += 2) {
    _tile_zero(0);
    _tile_loadd(2, p.x.codes + b * kTileRows * kBlockColumns, kBlockColumns);
    _tile_loadd(4, w.codes + b * kQ8BlockBytes, kGroupBytes);
    _tile_dpbssd(0, 2, 4);
    _tile_zero(1);
    _tile_loadd(3, p.x.codes + (b + 1) * kTileRows * kBlockColumns, kBlockColumns);
    _tile_loadd(5, w.codes + (b + 1) * kQ8BlockBytes, kGroupBytes);
    _tile_dpbssd(1, 3, 5);
    _tile_stored(0, sums[0], kGroupBytes);
    _tile_stored(1, sums[1], kGroupBytes);
    add_block<kOffsets>(sums[0], p, w, b, acc);
    add_block<kOffsets>(sums[1], p, w, b + 1, acc);
  }
  if (b < p.n_blocks) {
    _tile_zero(0);
    _tile_loadd(2, p.x.codes + b * kTileRows * kBlockColumns, kBlockColumns);
    _tile_loadd(4, w.codes + b * kQ8BlockBytes, kGroupBytes);
    _tile_dpbssd(0, 2, 4);
    _tile_stored(0, sums[0], kGroupBytes);
    add_block<kOffsets>(sums[0], p, w, b, acc);
  }
  const __mmask16 mask = lane_mask(p.first_lane, p.last_lane);
  for (int r = 0; r < p.n_rows; ++r) {
    _mm512_mask_storeu_ps(p.y + r * p.ld, mask, acc[r]);
  }
}

void expand_any(const QuantProduct& p, const Expanded& out) {
  if (p.format.code == PanelCode::kQ8) {
    return expand<PanelCode::kQ8, PanelScale::kHalf>(p, out);
  }
  switch (p.format.scale) {
    case PanelScale::kHalf:
      return expand<PanelCode::kNibble, PanelScale::kHalf>(p, out);
    case PanelScale::kHalfMin:
      return expand<PanelCode::kNibble, PanelScale::kHalfMin>(p, out);
    case PanelScale::kPower:
      return expand<PanelCode::kNibble, PanelScale::kPower>(p, out);
    case PanelScale::kSuper:
      return expand<PanelCode::kNibble, PanelScale::kSuper>(p, out);
    case PanelScale::kSuperMin:
      return expand<PanelCode::kNibble, PanelScale::kSuperMin>(p, out);
    case PanelScale::kNone:
      return;
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
  w.offsets = w.scales + n * kLanes;
  expand_any(p.first, w);
  configure_tiles();
  const bool offsets = has_offset(p.first.format.scale);
  for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
    const QuantProduct q = tile_at(p, tile);
    if (offsets) {
      multiply_tile<true>(q, w);
    } else {
      multiply_tile<false>(q, w);
    }
  }
  _tile_release();
}

}  // namespace

const CpuKernels& kernels_amx() noexcept {
  static const CpuKernels table = {"amx", {quantize_row, quant_tile, quant_panel, float_rows, swiglu}};
  return table;
}

}  // namespace fathom::cpu
