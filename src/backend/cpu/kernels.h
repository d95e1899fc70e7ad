// The table of an instruction set: what linear.cpp and mixture.cpp call on ranges of panels. Kernels are pure, allocate
// nothing and never fail. All tables give the same bits: integer dot products are exact, and every float operation and
// its order is fixed (see Product kernels).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/panel.h"
#include "backend/cpu/row_kernels.h"

namespace fathom::cpu {

// Product kernels: outputs of one panel for the rows of one tile.
//
// Quantised, scales of a block (kHalf, kHalfMin, kPower): per block b, in ascending order, with exact integer dot d_b =
// sum(code
// * x code):
//   acc = fma(float(d_b), x_scale_b * w_scale_b, acc);  with offsets also  acc = fma(offset_b, x_scale_b *
//   float(sum_b), acc)
// Quantised, integer scales: per group g of kGroupBlocks blocks, in ascending order, with exact integer sums over its
// blocks S_g = sum(scale_b * d_b) and M_g = sum(min_b * sum_b):
//   acc = fma(float(S_g), x_scale_g * factor_g, acc);  with mins also  acc = fma(float(M_g), x_scale_g * offset_g, acc)
// where blocks have two scales, d_b and sum_b are of either half.
// Float: acc = fma(w_k, x_k, acc) for ascending k.
struct QuantProduct {
  PanelFormat format;
  const std::byte* panel = nullptr;
  int n_blocks = 0;
  QuantTile x;
  int n_rows = 0;      // 1 to 16 rows of the tile
  float* y = nullptr;  // [n_rows][ld], the panel's first lane at column 0
  ptrdiff_t ld = 0;
  int first_lane = 0;  // lanes [first_lane, last_lane) are written
  int last_lane = kLanes;
};

// The same for consecutive tiles; may expand the panel first. `workspace`: gemm_workspace_bytes(n_blocks), 64-byte
// aligned.
struct QuantPanelProduct {
  QuantProduct first;   // its tile, y and n_rows are those of the first tile; n_rows is ignored
  int n_rows = 0;       // of all tiles
  int tile_blocks = 0;  // blocks of a whole activation row, an even number: from one tile to the next
  std::byte* workspace = nullptr;
};

struct FloatProduct {
  PanelCode code = PanelCode::kF32;
  const std::byte* panel = nullptr;  // [columns][16]
  int columns = 0;
  const float* x = nullptr;  // [n_rows][x_ld]
  ptrdiff_t x_ld = 0;
  int n_rows = 0;
  float* y = nullptr;
  ptrdiff_t y_ld = 0;
  int first_lane = 0;
  int last_lane = kLanes;
};

// Where a QuantTile is written.
struct QuantTileOut {
  int8_t* codes;
  float* scales;
  int16_t* sums;
};

struct LinearKernels {
  // One row x[n], n a multiple of 32, into row `row` of a tile: per `group` blocks scale = amax / 127 and codes rounded
  // to nearest even. `tile` points at the row's first block.
  void (*quantize_row)(const float* x, int n, int group, int row, const QuantTileOut& tile) noexcept;
  void (*quant_tile)(const QuantProduct& product) noexcept;
  void (*quant_panel)(const QuantPanelProduct& product) noexcept;
  void (*float_rows)(const FloatProduct& product) noexcept;
  // out[i] = weight * silu(min(gate, limit)) * clamp(up, -limit, limit); limit 0: no clamp.
  void (*swiglu)(const float* gate, const float* up, int n, float limit, float weight, float* out) noexcept;
};

// Room for a panel with two bytes a code, its scales, and two tiles of rows with as many.
[[nodiscard]] constexpr size_t gemm_workspace_bytes(int n_blocks) {
  const auto blocks = static_cast<size_t>(n_blocks + 1);
  return blocks * (2 * kQ8BlockBytes + 8 * kLanes * sizeof(float)) + 2 * blocks * 2 * kTileRows * kBlockColumns + 4096;
}

struct CpuKernels {
  const char* isa;
  LinearKernels linear;
  const AttentionKernels* attention;
  const RowKernels* rows;
};

[[nodiscard]] const CpuKernels& kernels_scalar() noexcept;
[[nodiscard]] const CpuKernels& kernels_avx2() noexcept;
[[nodiscard]] const CpuKernels& kernels_avx512() noexcept;  // F, BW, VL, DQ, VNNI, VBMI
[[nodiscard]] const CpuKernels& kernels_amx() noexcept;     // AVX-512 and AMX int8

// "" picks the best that this CPU runs. Throws kUnsupported for an unknown name and for one that this CPU lacks.
[[nodiscard]] const CpuKernels& select_kernels(std::string_view forced_isa);

}  // namespace fathom::cpu
