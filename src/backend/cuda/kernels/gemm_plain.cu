#include "backend/cuda/kernels/gemm.cuh"

namespace fathom::cuda {

void gemm(const Launch& launch, const GemmParams& p) {
  if (gemm_tile_rows(p.tiles != nullptr ? p.tile_rows : p.rows) == 128) {
    launch_gemm<128, false>(launch, p);
  } else {
    launch_gemm<32, false>(launch, p);
  }
}

}  // namespace fathom::cuda
