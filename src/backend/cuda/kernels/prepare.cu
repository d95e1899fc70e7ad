// Everything between the projections and attention that is small: norms and rotations of queries and KV rows, the
// compressors, the indexer's queries. One launch, a block for each head or row.
#include <utility>

#include "backend/cuda/kernels/compressor.cuh"
#include "backend/cuda/kernels/launch.cuh"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kStoreThreads = 256;

// `block`: a head of q, or (the last) the kv row.
__device__ void norm_rope(const HeadParams& p, int block, int row, float* head, float* shared) {
  const int dims = p.cache.ring.dims;
  const int rope = p.cache.ring.rope;
  const bool is_kv = block == p.heads;
  float* values = is_kv ? p.kv.data + row * p.kv.ld : p.q.data + row * p.q.ld + block * dims;
  float sum = 0.0F;
  for (int d = threadIdx.x; d < dims; d += kThreads) {
    head[d] = values[d];
    sum += head[d] * head[d];
  }
  const float r = rsqrtf(block_sum(sum, shared) / static_cast<float>(dims) + p.eps);
  for (int d = threadIdx.x; d < dims; d += kThreads) {
    head[d] = is_kv ? head[d] * r * p.kv_norm[d] : head[d] * r;
  }
  __syncthreads();
  rotate_tail(head + dims - rope, rope / 2, p.cache.rotations + row * (rope / 2), 1.0F);
  __syncthreads();
  if (is_kv) {
    round_kv_row(p.cache.ring, p.cache.simulated, head);
    if (p.store_ring) {
      const int position = p.cache.step.row_position[row];
      std::byte* ring = p.cache.step.slots[p.cache.step.row_sequence[row]] + p.cache.ring.offset;
      store_kv_row(p.cache.ring, ring, position % p.cache.ring_rows, head);
    }
  }
  for (int d = threadIdx.x; d < dims; d += kThreads) {
    values[d] = head[d];
  }
}

// One head of the indexer's query, in place.
__device__ void rotate_query(const SelectParams& p, int block, int row, float* head) {
  float* values = p.q.data + row * p.q.ld + block * p.dim;
  for (int d = threadIdx.x; d < p.dim; d += kThreads) {
    head[d] = values[d];
  }
  __syncthreads();
  rotate_tail(head + p.dim - p.rope, p.rope / 2, p.cache.rotations + row * (p.rope / 2), 1.0F);
  __syncthreads();
  if (p.cache.simulated) {
    hadamard_row(head, p.dim);
    const int lane = threadIdx.x % kWarp;
    for (int first = static_cast<int>(threadIdx.x / kWarp) * kFp4Group; first < p.dim; first += kThreads) {
      unsigned code = 0;
      const float v = fp4_round(first + lane < p.dim ? head[first + lane] : 0.0F, &code);
      if (first + lane < p.dim) {
        head[first + lane] = v;
      }
    }
    __syncthreads();
  }
  for (int d = threadIdx.x; d < p.dim; d += kThreads) {
    values[d] = head[d];
  }
}

// Nothing to choose: all visible entries.
__device__ void select_all(const SelectParams& p, int row) {
  const int visible = (p.cache.step.row_position[row] + 1) / p.cache.ratio;
  for (int i = threadIdx.x; i < p.topk; i += kThreads) {
    p.selected.data[row * p.selected.ld + i] = i < visible ? i : -1;
  }
}

__device__ void compress(const CompressParams& p, int row, float* entry, float* shared) {
  const int sequence = p.cache.step.row_sequence[row];
  const int position = p.cache.step.row_position[row];
  if ((position + 1) % p.cache.ratio == 0) {
    pool_entry(p, row, sequence, position, entry, shared);
  }
  if (p.short_runs) {
    store_state_row(p, row, sequence, position);
  }
}

// blockIdx.x counts through the parts that are there; blockIdx.y: row.
__global__ void __launch_bounds__(kThreads) prepare_kernel(const __grid_constant__ PrepareParams p) {
  extern __shared__ float values[];
  __shared__ float shared[32];
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.y;
  int block = blockIdx.x;
  if (p.has_heads) {
    if (block <= p.heads.heads) {
      norm_rope(p.heads, block, row, values, shared);
      return;
    }
    block -= p.heads.heads + 1;
  }
  if (p.has_index) {
    if (block == 0) {
      compress(p.index, row, values, shared);
      return;
    }
    --block;
  }
  if (p.has_entries) {
    if (block == 0) {
      compress(p.entries, row, values, shared);
      return;
    }
    --block;
  }
  if (block < p.select.heads) {
    rotate_query(p.select, block, row, values);
  } else {
    select_all(p.select, row);
  }
}

__global__ void __launch_bounds__(kStoreThreads) store_states_kernel(const __grid_constant__ CompressParams p) {
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.x;
  const int sequence = p.cache.step.row_sequence[row];
  const int position = p.cache.step.row_position[row];
  if (position >= p.cache.step.starts[sequence] + p.cache.step.row_counts[sequence] - p.state.capacity) {
    store_state_row(p, row, sequence, position);
  }
}

}  // namespace

void prepare_rows(const Launch& launch, const PrepareParams& p, int rows) {
  int blocks = 0;
  int width = 0;
  const auto add = [&](bool there, int n, int values) {
    blocks += there ? n : 0;
    width = there && values > width ? values : width;
  };
  add(p.has_heads, p.heads.heads + 1, p.heads.cache.ring.dims);
  add(p.has_index, 1, p.index.width);
  add(p.has_entries, 1, p.entries.width);
  add(p.has_select, p.select.heads + (p.selects_all ? 1 : 0), p.select.dim);
  start(launch, prepare_kernel, dim3(blocks, rows), kThreads, static_cast<size_t>(width) * sizeof(float), p);
  for (const auto& [there, compressor] : {std::pair{p.has_index, &p.index}, std::pair{p.has_entries, &p.entries}}) {
    if (there && !compressor->short_runs) {
      start(launch, store_states_kernel, dim3(rows), kStoreThreads, 0, *compressor);
    }
  }
}

}  // namespace fathom::cuda
