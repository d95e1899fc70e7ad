#include "backend/cuda/kernels/gemm.cuh"

namespace fathom::cuda {

void gemm_gate_up(const Launch& launch, const GemmParams& p) {
  if (gemm_tile_rows(p.tiles != nullptr ? p.tile_rows : p.rows) == 128) {
    launch_gemm<128, true>(launch, p);
  } else {
    launch_gemm<32, true>(launch, p);
  }
}

}  // namespace fathom::cuda
