// AVX-512 with VNNI: one zmm register holds the 16 lanes of a panel.
#include <immintrin.h>

#include "backend/cpu/isa/avx512_impl.h"

namespace fathom::cpu {
namespace {

using namespace avx512;

void quant_panel(const QuantPanelProduct& p) noexcept {
  if (p.n_rows <= kTileRows) {
    return quant_tile(tile_at(p, 0));
  }
  with_format(p.first.format, [&]<PanelCode C, PanelScale S>() {
    expand_codes<C, S>(p.first, p.workspace);
    for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
      quant_tile_of<C, S>(tile_at(p, tile), p.workspace);
    }
  });
}

}  // namespace

const CpuKernels& kernels_avx512() noexcept {
  static const CpuKernels table = {
      "avx512", {quantize_row, quant_tile, quant_panel, float_rows, swiglu}, &kAttentionAvx512, &kRowAvx512};
  return table;
}

}  // namespace fathom::cpu
