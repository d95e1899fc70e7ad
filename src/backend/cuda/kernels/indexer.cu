// Lightning indexer: scores and the exact best entries of every row.
#include "backend/cuda/kernels/cache_rows.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {
namespace {

constexpr int kScoreThreads = 256;
constexpr int kSelectThreads = 512;

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

// Integers in the order of the scores.
__device__ unsigned ordered(float v) {
  const unsigned bits = __float_as_uint(v);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Exclusive prefix sum of one flag a thread; also gives the total.
__device__ int block_prefix(bool flag, int* shared, int* total) {
  const unsigned mask = __ballot_sync(kFullMask, flag);
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (lane == 0) {
    shared[warp] = __popc(mask);
  }
  __syncthreads();
  int before = 0;
  int sum = 0;
  for (int w = 0; w < kSelectThreads / kWarp; ++w) {
    before += w < warp ? shared[w] : 0;
    sum += shared[w];
  }
  __syncthreads();
  *total = sum;
  return before + __popc(mask & ((1U << lane) - 1U));
}

// Radix selection of the topk-th best score, then the entries above it and the first of its equals, in order.
__global__ void __launch_bounds__(kSelectThreads) select_kernel(const __grid_constant__ SelectParams p, int first_row) {
  __shared__ int histogram[256];
  __shared__ int shared[32];
  __shared__ unsigned chosen_digit;
  __shared__ int remaining;
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
  const float* scores = p.scores + static_cast<int64_t>(blockIdx.x) * p.max_visible;
  unsigned prefix = 0;
  if (threadIdx.x == 0) {
    remaining = p.topk;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kSelectThreads) {
      histogram[i] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < visible; i += kSelectThreads) {
      const unsigned key = ordered(scores[i]);
      if (shift == 24 || key >> (shift + 8) == prefix >> (shift + 8)) {
        atomicAdd(&histogram[(key >> shift) & 255], 1);
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      int left = remaining;
      while (histogram[digit] < left) {
        left -= histogram[digit];
        --digit;
      }
      chosen_digit = static_cast<unsigned>(digit);
      remaining = left;
    }
    __syncthreads();
    prefix |= chosen_digit << shift;
  }
  // `remaining` entries equal to the threshold are wanted, the lowest first.
  const int equals_wanted = remaining;
  int written = 0;
  int equals_seen = 0;
  for (int first = 0; first < visible; first += kSelectThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const unsigned key = i < visible ? ordered(scores[i]) : 0;
    const bool equal = i < visible && key == prefix;
    int equals = 0;
    const int rank = block_prefix(equal, shared, &equals);
    const bool take = i < visible && (key > prefix || (equal && equals_seen + rank < equals_wanted));
    int taken = 0;
    const int at = block_prefix(take, shared, &taken);
    if (take) {
      out[written + at] = i;
    }
    written += taken;
    equals_seen += equals;
  }
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
