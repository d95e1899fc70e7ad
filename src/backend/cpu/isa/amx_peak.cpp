// The best that AMX does: products of whole int8 tiles, two by two.
#include <immintrin.h>

#include "backend/cpu/peak.h"

namespace fathom::cpu {
namespace {

constexpr int kTileSide = 16;
constexpr int kTileDepth = 64;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0 to 3: sums; 4, 5: left sides; 6, 7: right sides.
int32_t multiply(int64_t rounds) noexcept {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kTileDepth;
    config.rows[t] = kTileSide;
  }
  alignas(64) int8_t ones[kTileSide * kTileDepth];
  for (int8_t& one : ones) {
    one = 1;
  }
  // The intrinsics tell the compiler of a few of the bytes that they read; this makes it keep them all.
  __asm__ volatile("" : : "r"(&config), "r"(ones) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones, kTileDepth);
  _tile_loadd(5, ones, kTileDepth);
  _tile_loadd(6, ones, kTileDepth);
  _tile_loadd(7, ones, kTileDepth);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  alignas(64) int32_t sums[kTileSide * kTileSide];
  _tile_stored(0, sums, kTileDepth);
  _tile_release();
  return sums[0];
}

}  // namespace

const PeakKernels& peak_kernels_amx() noexcept {
  static const PeakKernels kernels = {peak_kernels_avx512().read, multiply, 2 * 4 * kTileSide * kTileSide * kTileDepth};
  return kernels;
}

}  // namespace fathom::cpu
