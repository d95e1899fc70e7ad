// Lightning indexer: scores and the exact best entries of every row.
#include "backend/cuda/kernels/cache_rows.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"
#include "backend/cuda/kernels/select.cuh"

namespace fathom::cuda {
namespace {

constexpr int kScoreThreads = 256;

__device__ int visible_entries(const CacheParams& c, int row) { return (c.step.row_position[row] + 1) / c.ratio; }

// One entry a warp at a time; blockIdx.y: row, counted from first_row.
__global__ void __launch_bounds__(kScoreThreads) score_kernel(const __grid_constant__ SelectParams p, int first_row) {
  extern __shared__ float query[];  // [heads, dim + 1] and weights [heads]
  wait_for_predecessor();
  let_successor_start();
  const int row = first_row + blockIdx.y;
  const int visible = visible_entries(p.cache, row);
  if (visible <= p.topk) {
    return;
  }
  const int sequence = p.cache.step.row_sequence[row];
  const int stride = p.dim + 1;
  float* weights = query + p.heads * stride;
  const float scale = 1.0F / (sqrtf(static_cast<float>(p.dim)) * sqrtf(static_cast<float>(p.heads)));
  for (int i = threadIdx.x; i < p.heads * p.dim; i += kScoreThreads) {
    query[i / p.dim * stride + i % p.dim] = p.q.data[row * p.q.ld + i];
  }
  for (int h = threadIdx.x; h < p.heads; h += kScoreThreads) {
    weights[h] = p.weights.data[row * p.weights.ld + h] * scale;
  }
  float* key = weights + p.heads + static_cast<int>(threadIdx.x / kWarp) * p.dim;
  const int lane = threadIdx.x % kWarp;
  __syncthreads();
  const int warps = static_cast<int>(gridDim.x) * (kScoreThreads / kWarp);
  for (int c = static_cast<int>(blockIdx.x) * (kScoreThreads / kWarp) + static_cast<int>(threadIdx.x / kWarp);
       c < visible; c += warps) {
    std::byte* region = entry_region(p.cache, sequence, c, p.cache.index);
    __syncwarp();
    for (int d = lane; d < p.dim; d += kWarp) {
      key[d] = index_value(p.cache.index, region, c % p.cache.rows_per_block, d);
    }
    __syncwarp();
    float score = 0.0F;
    for (int h = lane; h < p.heads; h += kWarp) {
      float dot = 0.0F;
      for (int d = 0; d < p.dim; ++d) {
        dot += query[h * stride + d] * key[d];
      }
      score += weights[h] * fmaxf(dot, 0.0F);
    }
    score = warp_sum(score);
    if (lane == 0) {
      p.scores[static_cast<int64_t>(blockIdx.y) * p.max_visible + c] = score;
    }
  }
}

__global__ void __launch_bounds__(kSelectThreads) select_kernel(const __grid_constant__ SelectParams p, int first_row) {
  __shared__ SelectSpace space;
  wait_for_predecessor();
  let_successor_start();
  const int row = first_row + blockIdx.x;
  const int visible = visible_entries(p.cache, row);
  int32_t* out = p.selected.data + row * p.selected.ld;
  if (visible <= p.topk) {
    for (int i = threadIdx.x; i < p.topk; i += kSelectThreads) {
      out[i] = i < visible ? i : -1;
    }
    return;
  }
  select_best(p.scores + static_cast<int64_t>(blockIdx.x) * p.max_visible, visible, p.topk, out, space);
}

}  // namespace

void select_rows(const Launch& launch, const SelectParams& p) {
  const bool all_fit = p.max_visible <= p.topk;
  const int at_once = all_fit ? p.cache.rows : p.score_rows;
  for (int first = 0; first < p.cache.rows; first += at_once) {
    const int rows = p.cache.rows - first < at_once ? p.cache.rows - first : at_once;
    if (!all_fit) {
      const int wanted = ceil_div(p.max_visible, 64);
      const int limit = ceil_div(4 * launch.multiprocessors, rows);
      const int blocks = wanted < limit ? wanted : limit;
      const size_t bytes = static_cast<size_t>(p.heads * (p.dim + 2) + kScoreThreads / kWarp * p.dim) * sizeof(float);
      start(launch, score_kernel, dim3(blocks, rows), kScoreThreads, bytes, p, first);
    }
    start(launch, select_kernel, dim3(rows), kSelectThreads, 0, p, first);
  }
}

}  // namespace fathom::cuda
