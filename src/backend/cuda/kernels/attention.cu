// Angles of the step's rows, the window ring, and attention for any geometry. attend_tensor.cu holds the fast path.
#include "backend/cuda/kernels/cache_rows.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {
namespace {

constexpr int kHeadThreads = 128;
constexpr int kAttendThreads = 128;

__global__ void rotation_kernel(int rope, const int32_t* positions, const float* plain, const float* compressed,
                                float2* plain_out, float2* compressed_out) {
  const int pairs = rope / 2;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const int position = positions[blockIdx.x];
    plain_out[blockIdx.x * pairs + i] = rotation_at(position, plain[i]);
    compressed_out[blockIdx.x * pairs + i] = rotation_at(position, compressed[i]);
  }
}

// What one query sees: the window by position, then the entries.
struct Keys {
  int first_position;
  int n_window;
  int n_entries;
};

__device__ Keys visible_keys(const AttendParams& p, int row) {
  const int position = p.cache.step.row_position[row];
  Keys k;
  k.first_position = max(0, position - p.cache.window + 1);
  k.n_window = position + 1 - k.first_position;
  k.n_entries = p.cache.ratio > 0 ? (position + 1) / p.cache.ratio : 0;
  if (p.selected.data != nullptr) {
    k.n_entries = min(k.n_entries, p.topk);
  }
  return k;
}

// One head of one row.
__global__ void __launch_bounds__(kAttendThreads) attend_kernel(const __grid_constant__ AttendParams p) {
  extern __shared__ float scores[];  // [max_keys], then the query [dim]
  __shared__ float shared[32];
  wait_for_predecessor();
  let_successor_start();
  const CacheParams& c = p.cache;
  const int head = blockIdx.x;
  const int row = blockIdx.y;
  const int sequence = c.step.row_sequence[row];
  const int start = c.step.starts[sequence];
  const int first_row = c.step.first_rows[sequence];
  std::byte* ring = c.step.slots[sequence] + c.ring.offset;
  const Keys keys = visible_keys(p, row);
  const int n = keys.n_window + keys.n_entries;
  float* query = scores + p.max_keys;
  for (int d = threadIdx.x; d < p.dim; d += kAttendThreads) {
    query[d] = p.q.data[row * p.q.ld + head * p.dim + d];
  }
  __syncthreads();

  const auto value = [&](int key, int d) {
    if (key < keys.n_window) {
      const int t = keys.first_position + key;
      return t < start ? kv_value(c.ring, ring, t % c.ring_rows, d) : p.kv.data[(first_row + t - start) * p.kv.ld + d];
    }
    const int i = key - keys.n_window;
    const int entry = p.selected.data != nullptr ? p.selected.data[row * p.selected.ld + i] : i;
    return kv_value(c.entries, entry_region(c, sequence, entry, c.entries), entry % c.rows_per_block, d);
  };

  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const float scale = rsqrtf(static_cast<float>(p.dim));
  for (int key = warp; key < n; key += kAttendThreads / kWarp) {
    float dot = 0.0F;
    for (int d = lane; d < p.dim; d += kWarp) {
      dot += query[d] * value(key, d);
    }
    dot = warp_sum(dot);
    if (lane == 0) {
      scores[key] = dot * scale;
    }
  }
  __syncthreads();
  const float sink = p.sinks[head];
  float max = sink;
  for (int key = threadIdx.x; key < n; key += kAttendThreads) {
    max = fmaxf(max, scores[key]);
  }
  max = block_max(max, shared);
  float total = 0.0F;
  for (int key = threadIdx.x; key < n; key += kAttendThreads) {
    scores[key] = expf(scores[key] - max);
    total += scores[key];
  }
  total = block_sum(total, shared) + expf(sink - max);
  float* out = query;
  for (int d = threadIdx.x; d < p.dim; d += kAttendThreads) {
    float sum = 0.0F;
    for (int key = 0; key < n; ++key) {
      sum += scores[key] * value(key, d);
    }
    out[d] = sum / total;
  }
  __syncthreads();
  rotate_tail(out + p.dim - p.rope, p.rope / 2, c.rotations + row * (p.rope / 2), -1.0F);
  __syncthreads();
  for (int d = threadIdx.x; d < p.dim; d += kAttendThreads) {
    p.context.data[row * p.context.ld + head * p.dim + d] = out[d];
  }
}

// Rows that a later one of the same step would overwrite are left out, so no ring row is written twice.
__global__ void __launch_bounds__(kHeadThreads) store_ring_kernel(const __grid_constant__ AttendParams p) {
  wait_for_predecessor();
  let_successor_start();
  const CacheParams& c = p.cache;
  const int row = blockIdx.x;
  const int sequence = c.step.row_sequence[row];
  const int end = c.step.starts[sequence] + c.step.row_counts[sequence];
  const int position = c.step.row_position[row];
  if (position >= end - c.ring_rows) {
    store_kv_row(c.ring, c.step.slots[sequence] + c.ring.offset, position % c.ring_rows, p.kv.data + row * p.kv.ld);
  }
}

}  // namespace

void rotate_step_rows(const Launch& launch, int rows, int rope, const int32_t* positions, const float* plain,
                      const float* compressed, float2* plain_out, float2* compressed_out) {
  start(launch, rotation_kernel, dim3(rows), 32, 0, rope, positions, plain, compressed, plain_out, compressed_out);
}

void attend_rows(const Launch& launch, const AttendParams& p) {
  const size_t bytes = static_cast<size_t>(p.max_keys + p.dim) * sizeof(float);
  start(launch, attend_kernel, dim3(p.heads, p.cache.rows), kAttendThreads, bytes, p);
}

void store_ring_rows(const Launch& launch, const AttendParams& p) {
  start(launch, store_ring_kernel, dim3(p.cache.rows), kHeadThreads, 0, p);
}

}  // namespace fathom::cuda
