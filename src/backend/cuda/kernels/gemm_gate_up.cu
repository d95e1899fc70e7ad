#include "backend/cuda/kernels/gemm.cuh"

namespace fathom::cuda {

void gemm_gate_up(const Launch& launch, const GemmParams& p) {
  if ((p.tiles != nullptr ? p.tile_rows : gemm_tile_rows(p.rows)) == 128) {
    launch_gemm<128, true>(launch, p);
  } else {
    launch_gemm<64, true>(launch, p);
  }
}

}  // namespace fathom::cuda
