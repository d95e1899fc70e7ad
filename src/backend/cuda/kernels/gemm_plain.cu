#include "backend/cuda/kernels/gemm.cuh"

namespace fathom::cuda {

void gemm_list(const Launch& launch, GemmParams p) {
  for (int i = 0; i < p.list.n; ++i) {
    p.list.first_tile[i + 1] = p.list.first_tile[i] + ceil_div(p.list.tasks[i].w.rows, kTileN);
  }
  gemm(launch, p);
}

void gemm(const Launch& launch, const GemmParams& p) {
  if ((p.tiles != nullptr ? p.tile_rows : gemm_tile_rows(p.rows)) == 128) {
    launch_gemm<128, false>(launch, p);
  } else {
    launch_gemm<64, false>(launch, p);
  }
}

}  // namespace fathom::cuda
