// What surrounds the products of many rows: narrowing, grouping by expert, adding up.
#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {
namespace {

constexpr int kGroupThreads = 1024;
constexpr int kMaxExperts = 1024;

__global__ void to_bf16_kernel(int cols, View<const float> x, __nv_bfloat16* out) {
  wait_for_predecessor();
  let_successor_start();
  const float* from = x.data + blockIdx.y * x.ld;
  __nv_bfloat16* to = out + static_cast<int64_t>(blockIdx.y) * cols;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cols; i += gridDim.x * blockDim.x) {
    to[i] = __float2bfloat16_rn(from[i]);
  }
}

// One block. Rows of one expert come in no fixed order, which no result depends on.
__global__ void __launch_bounds__(kGroupThreads) group_kernel(const __grid_constant__ GroupParams p) {
  __shared__ int counts[kMaxExperts];
  __shared__ int places[kMaxExperts];
  __shared__ int tile_places[kMaxExperts];
  wait_for_predecessor();
  const int pairs = p.rows * p.used;
  for (int e = threadIdx.x; e < p.experts; e += kGroupThreads) {
    counts[e] = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += kGroupThreads) {
    const int row = i / p.used;
    atomicAdd(&counts[p.ids.data[row * p.ids.ld + i % p.used]], 1);
    p.pair_weights[i] = p.weights.data[row * p.weights.ld + i % p.used];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int place = 0;
    int tile = 0;
    for (int e = 0; e < p.experts; ++e) {
      places[e] = place;
      tile_places[e] = tile;
      place += counts[e];
      tile += ceil_div(counts[e], p.tile_rows);
    }
    *p.n_tiles = tile;
  }
  __syncthreads();
  for (int e = threadIdx.x; e < p.experts; e += kGroupThreads) {
    for (int t = 0; t * p.tile_rows < counts[e]; ++t) {
      p.tiles[tile_places[e] + t] = {e, places[e] + t * p.tile_rows, min(p.tile_rows, counts[e] - t * p.tile_rows), 0};
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += kGroupThreads) {
    const int e = p.ids.data[i / p.used * p.ids.ld + i % p.used];
    p.pairs[atomicAdd(&places[e], 1)] = i;
  }
}

__global__ void add_experts_kernel(int used, int cols, const float* out, View<float> y) {
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.y;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= cols) {
    return;
  }
  float sum = 0.0F;
  for (int k = 0; k < used; ++k) {
    sum += out[(static_cast<int64_t>(row) * used + k) * cols + i];
  }
  y.data[row * y.ld + i] += sum;
}

}  // namespace

void to_bf16_rows(const Launch& launch, int rows, int cols, View<const float> x, uint16_t* out) {
  const int blocks = ceil_div(cols, 1024);
  start(launch, to_bf16_kernel, dim3(blocks, rows), 256, 0, cols, x, reinterpret_cast<__nv_bfloat16*>(out));
}

bool can_multiply_many_rows(const DeviceWeight& w, int group_rows) {
  constexpr int kTileN = 128;
  constexpr int kTileK = 64;
  return w.format != Format::kF32 && w.cols % kTileK == 0 && group_rows % kTileN == 0 &&
         (w.format != Format::kF8 || w.scale_cols % 32 == 0);
}

int gemm_tile_rows(int rows_per_slice) { return rows_per_slice > 64 ? 128 : 64; }

int max_row_tiles(int pairs, int experts, int tile_rows) {
  const int full = ceil_div(pairs, tile_rows) + experts;
  return full < pairs ? full : pairs;
}

void group_by_expert(const Launch& launch, const GroupParams& p) {
  start(launch, group_kernel, dim3(1), kGroupThreads, 0, p);
}

void add_experts(const Launch& launch, int rows, int used, int cols, const float* out, View<float> y) {
  start(launch, add_experts_kernel, dim3(ceil_div(cols, 256), rows), 256, 0, used, cols, out, y);
}

}  // namespace fathom::cuda
