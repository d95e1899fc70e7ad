// Hyper-connections: the exit of one sublayer and the entry of the next, and the reduction in front of the head.
//
// Entry is two kernels. The first cuts the hidden dimension into parts: each block finishes a pending exit for its
// columns and sums its share of the mix products. The second adds the shares in one order, and makes the coefficients
// and the normed input.
#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {
namespace {

constexpr int kPartColumns = 32;
constexpr int kMaxHc = 8;
constexpr int kFinishThreads = 512;

// Block: kPartColumns columns of every stream, one warp a stream. blockIdx.y: row.
template <Format F>
__global__ void __launch_bounds__(kMaxHc* kPartColumns) mix_part_kernel(const __grid_constant__ HcParams p) {
  extern __shared__ float products[];  // [mix + 1, threads + 1], then sums [mix + 1, hc]
  const int threads = p.hc * kPartColumns;
  const int mix = p.fn.rows;
  const int stream = threadIdx.x / kPartColumns;
  const int i = blockIdx.x * kPartColumns + threadIdx.x % kPartColumns;
  const bool inside = i < p.hidden;
  const int row = blockIdx.y;
  const auto fn_value = [&](int t) {
    return inside ? float_value<F>(p.fn.codes, static_cast<int64_t>(t) * p.fn.cols + stream * p.hidden + i) : 0.0F;
  };
  constexpr int kEarly = 24;  // rows of fn with four streams
  float early[kEarly];
#pragma unroll
  for (int t = 0; t < kEarly; ++t) {
    early[t] = t < mix ? fn_value(t) : 0.0F;
  }
  wait_for_predecessor();
  const int from = p.row_map != nullptr ? p.row_map[row] : row;

  float z = 0.0F;
  float* streams = p.streams.data + from * p.streams.ld;
  if (inside) {
    z = streams[stream * p.hidden + i];
  }
  if (p.exit_y.data != nullptr) {
    float sum = 0.0F;
    if (inside) {
      sum = p.exit_post.data[row * p.exit_post.ld + stream] * p.exit_y.data[row * p.exit_y.ld + i];
      const float* comb = p.exit_comb.data + row * p.exit_comb.ld + stream;
      for (int j = 0; j < p.hc; ++j) {
        sum += comb[j * p.hc] * streams[j * p.hidden + i];
      }
    }
    __syncthreads();  // every stream of these columns has been read
    if (inside) {
      streams[stream * p.hidden + i] = sum;
      z = sum;
    }
  }
  let_successor_start();

#pragma unroll
  for (int t = 0; t < kEarly; ++t) {
    if (t < mix) {
      products[t * (threads + 1) + threadIdx.x] = early[t] * z;
    }
  }
  for (int t = kEarly; t < mix; ++t) {
    products[t * (threads + 1) + threadIdx.x] = fn_value(t) * z;
  }
  products[mix * (threads + 1) + threadIdx.x] = z * z;
  __syncthreads();
  float* sums = products + (mix + 1) * (threads + 1);
  for (int m = threadIdx.x; m < (mix + 1) * p.hc; m += blockDim.x) {
    const float* values = products + m % (mix + 1) * (threads + 1) + m / (mix + 1) * kPartColumns;
    float sum = 0.0F;
#pragma unroll
    for (int l = 0; l < kPartColumns; ++l) {
      sum += values[l];
    }
    sums[m] = sum;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < mix + 1; t += blockDim.x) {
    float sum = 0.0F;
    for (int s = 0; s < p.hc; ++s) {
      sum += sums[s * (mix + 1) + t];
    }
    p.partials[(static_cast<int64_t>(row) * (mix + 1) + t) * gridDim.x + blockIdx.x] = sum;
  }
}

constexpr int kManyRows = 128;     // rows of one block
constexpr int kManyColumns = 512;  // of all streams together
constexpr int kManyDepth = 32;     // columns in shared memory at a time
constexpr int kManyMix = 24;       // mix products of four streams

// The same sums for many rows: a thread has two rows and six products.
__global__ void __launch_bounds__(256) mix_many_kernel(const __grid_constant__ HcParams p) {
  __shared__ float zs[kManyRows][kManyDepth + 4];
  __shared__ float fs[kManyMix][kManyDepth + 4];
  wait_for_predecessor();
  const int first_row = static_cast<int>(blockIdx.y) * kManyRows;
  const int first_column = static_cast<int>(blockIdx.x) * kManyColumns;
  const auto* fn = reinterpret_cast<const float*>(p.fn.codes);
  const int pair = static_cast<int>(threadIdx.x) % 64;
  const int group = static_cast<int>(threadIdx.x) / 64;
  float sum[2][6] = {};
  float square[2] = {};
  for (int k = 0; k < kManyColumns; k += kManyDepth) {
    __syncthreads();
    for (int i = threadIdx.x; i < kManyRows * kManyDepth / 4; i += 256) {
      const int r = i / (kManyDepth / 4);
      const int d = i % (kManyDepth / 4) * 4;
      const int row = min(first_row + r, p.rows - 1);
      *reinterpret_cast<float4*>(&zs[r][d]) =
          *reinterpret_cast<const float4*>(p.streams.data + row * p.streams.ld + first_column + k + d);
    }
    for (int i = threadIdx.x; i < kManyMix * kManyDepth / 4; i += 256) {
      const int t = i / (kManyDepth / 4);
      const int d = i % (kManyDepth / 4) * 4;
      *reinterpret_cast<float4*>(&fs[t][d]) =
          *reinterpret_cast<const float4*>(fn + static_cast<int64_t>(t) * p.fn.cols + first_column + k + d);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kManyDepth; d += 4) {
      const float4 a = *reinterpret_cast<const float4*>(&zs[pair][d]);
      const float4 b = *reinterpret_cast<const float4*>(&zs[pair + 64][d]);
      if (group == 0) {
        square[0] += a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
        square[1] += b.x * b.x + b.y * b.y + b.z * b.z + b.w * b.w;
      }
#pragma unroll
      for (int t = 0; t < 6; ++t) {
        const float4 f = *reinterpret_cast<const float4*>(&fs[group * 6 + t][d]);
        sum[0][t] += f.x * a.x + f.y * a.y + f.z * a.z + f.w * a.w;
        sum[1][t] += f.x * b.x + f.y * b.y + f.z * b.z + f.w * b.w;
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + pair + 64 * h;
    if (row >= p.rows) {
      continue;
    }
    float* out = p.partials + static_cast<int64_t>(row) * (kManyMix + 1) * gridDim.x + blockIdx.x;
#pragma unroll
    for (int t = 0; t < 6; ++t) {
      out[static_cast<int64_t>(group * 6 + t) * gridDim.x] = sum[h][t];
    }
    if (group == 0) {
      out[static_cast<int64_t>(kManyMix) * gridDim.x] = square[h];
    }
  }
}

__device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

// One warp; m: the 16 coefficients of a 4 x 4 combination. Lane 4 j + k holds C[j][k]; lanes 16 to 31 repeat it.
__device__ void sinkhorn_4x4(const float* coefficients, int iterations, float eps, float* out) {
  const int lane = threadIdx.x % kWarp;
  float c = coefficients[lane % 16];
  const auto over_row = [](float v) {
    v += __shfl_xor_sync(kFullMask, v, 1);
    return v + __shfl_xor_sync(kFullMask, v, 2);
  };
  const auto over_column = [](float v) {
    v += __shfl_xor_sync(kFullMask, v, 4);
    return v + __shfl_xor_sync(kFullMask, v, 8);
  };
  float max = fmaxf(c, __shfl_xor_sync(kFullMask, c, 1));
  max = fmaxf(max, __shfl_xor_sync(kFullMask, max, 2));
  c = expf(c - max);
  c = c / over_row(c) + eps;
  c = __fdividef(c, over_column(c) + eps);
  for (int it = 1; it < iterations; ++it) {
    c = __fdividef(c, over_row(c) + eps);
    c = __fdividef(c, over_column(c) + eps);
  }
  if (lane < 16) {
    out[lane] = c;
  }
}

// The same for any size, by one thread.
__device__ void sinkhorn(float* c, int n, int iterations, float eps, float* out) {
  for (int j = 0; j < n; ++j) {
    float max = c[j * n];
    for (int k = 1; k < n; ++k) {
      max = fmaxf(max, c[j * n + k]);
    }
    float sum = 0.0F;
    for (int k = 0; k < n; ++k) {
      c[j * n + k] = expf(c[j * n + k] - max);
      sum += c[j * n + k];
    }
    for (int k = 0; k < n; ++k) {
      c[j * n + k] = c[j * n + k] / sum + eps;
    }
  }
  const auto normalise = [&](int first, int step) {
    float sum = eps;
    for (int i = 0; i < n; ++i) {
      sum += c[first + i * step];
    }
    for (int i = 0; i < n; ++i) {
      c[first + i * step] /= sum;
    }
  };
  for (int it = 0; it < iterations; ++it) {
    for (int j = 0; it > 0 && j < n; ++j) {
      normalise(j * n, 1);
    }
    for (int k = 0; k < n; ++k) {
      normalise(k, n);
    }
  }
  for (int t = 0; t < n * n; ++t) {
    out[t] = c[t];
  }
}

// One warp: the sum of all parts of mix product t.
__device__ float add_parts(const HcParams& p, int row, int t, int parts) {
  const float* from = p.partials + (static_cast<int64_t>(row) * (p.fn.rows + 1) + t) * parts;
  float sum = 0.0F;
  for (int part = threadIdx.x % kWarp; part < parts; part += kWarp) {
    sum += from[part];
  }
  return warp_sum(sum);
}

// What hc_exit will need: post, and the normalised combination.
__device__ void finish_mix(const HcParams& p, int row, int parts, float* m) {
  const int n = p.hc;
  const int mix = p.fn.rows;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  for (int t = n + warp; t <= mix; t += kFinishThreads / kWarp) {
    const float sum = add_parts(p, row, t, parts);
    if (lane == 0) {
      m[t] = sum;
    }
  }
  __syncthreads();
  if (warp != 0) {
    return;
  }
  const float r = rsqrtf(m[mix] / static_cast<float>(n * p.hidden) + p.rms_eps);
  if (lane < n) {
    p.post.data[row * p.post.ld + lane] = 2.0F * sigmoid(m[n + lane] * r * p.scale[1] + p.base[n + lane]);
  }
  for (int t = lane; t < n * n; t += kWarp) {
    m[2 * n + t] = m[2 * n + t] * r * p.scale[2] + p.base[2 * n + t];
  }
  __syncwarp();
  float* comb = p.comb.data + row * p.comb.ld;
  if (n == 4) {
    sinkhorn_4x4(m + 2 * n, p.iterations, p.hc_eps, comb);
  } else if (lane == 0) {
    sinkhorn(m + 2 * n, n, p.iterations, p.hc_eps, comb);
  }
}

constexpr int kWideColumns = 4;  // groups of four columns a thread

// Four streams: everything is loaded before anything is used.
__device__ void finish_wide_input(const HcParams& p, int row, const float* streams, const float* pre, float* shared) {
  float4 v[kWideColumns];
  float sum = 0.0F;
#pragma unroll
  for (int g = 0; g < kWideColumns; ++g) {
    const int i = 4 * (g * kFinishThreads + static_cast<int>(threadIdx.x));
    v[g] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (i < p.hidden) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float4 x = *reinterpret_cast<const float4*>(streams + j * p.hidden + i);
        v[g] = make_float4(v[g].x + pre[j] * x.x, v[g].y + pre[j] * x.y, v[g].z + pre[j] * x.z, v[g].w + pre[j] * x.w);
      }
    }
    sum += v[g].x * v[g].x + v[g].y * v[g].y + v[g].z * v[g].z + v[g].w * v[g].w;
  }
  const float scale = rsqrtf(block_sum(sum, shared) / static_cast<float>(p.hidden) + p.rms_eps);
#pragma unroll
  for (int g = 0; g < kWideColumns; ++g) {
    const int i = 4 * (g * kFinishThreads + static_cast<int>(threadIdx.x));
    if (i >= p.hidden) {
      continue;  // whole groups of eight lanes
    }
    const float4 n = *reinterpret_cast<const float4*>(p.norm + i);
    const float4 x =
        make_float4(v[g].x * scale * n.x, v[g].y * scale * n.y, v[g].z * scale * n.z, v[g].w * scale * n.w);
    *reinterpret_cast<float4*>(p.x.data + row * p.x.ld + i) = x;
    if (p.q.codes != nullptr) {
      store_four_quantized(p.q, row, i, x);
    }
  }
}

// x = norm of the streams' weighted sum.
__device__ void finish_input(const HcParams& p, int row, int parts, float* m, float* y) {
  __shared__ float pre[kMaxHc];
  __shared__ float shared[32];
  const int mix = p.fn.rows;
  const int from = p.row_map != nullptr ? p.row_map[row] : row;
  const int warp = threadIdx.x / kWarp;
  if (warp <= p.hc) {
    const float sum = add_parts(p, row, warp < p.hc ? warp : mix, parts);
    if (threadIdx.x % kWarp == 0) {
      m[warp] = sum;
    }
  }
  __syncthreads();
  const float r = rsqrtf(m[p.hc] / static_cast<float>(p.hc * p.hidden) + p.rms_eps);
  if (threadIdx.x < p.hc) {
    pre[threadIdx.x] = sigmoid(m[threadIdx.x] * r * p.scale[0] + p.base[threadIdx.x]) + p.hc_eps;
  }
  __syncthreads();

  const float* streams = p.streams.data + from * p.streams.ld;
  if (p.hc == 4 && p.hidden % 32 == 0 && p.hidden <= kWideColumns * kFinishThreads * 4) {
    finish_wide_input(p, row, streams, pre, shared);
    return;
  }
  float sum = 0.0F;
  for (int i = threadIdx.x; i < p.hidden; i += kFinishThreads) {
    float v = 0.0F;
    for (int j = 0; j < p.hc; ++j) {
      v += pre[j] * streams[j * p.hidden + i];
    }
    y[i] = v;
    sum += v * v;
  }
  const float scale = rsqrtf(block_sum(sum, shared) / static_cast<float>(p.hidden) + p.rms_eps);
  for (int first = 0; first < p.hidden; first += kFinishThreads) {
    const int i = first + threadIdx.x;
    const float v = i < p.hidden ? y[i] * scale * p.norm[i] : 0.0F;
    if (i < p.hidden) {
      p.x.data[row * p.x.ld + i] = v;
    }
    if (p.q.codes != nullptr && first + warp * kWarp < p.hidden) {
      store_quantized(p.q, row, i / 32, v);
    }
  }
}

// blockIdx.x 0: the input of the sublayer; 1: the coefficients of its exit. blockIdx.y: row.
__global__ void __launch_bounds__(kFinishThreads) mix_finish_kernel(const __grid_constant__ HcParams p, int parts) {
  extern __shared__ float y[];  // [hidden]
  __shared__ float m[(2 + kMaxHc) * kMaxHc + 1];
  wait_for_predecessor();
  let_successor_start();
  if (blockIdx.x == 0) {
    finish_input(p, blockIdx.y, parts, m, y);
  } else {
    finish_mix(p, blockIdx.y, parts, m);
  }
}

__global__ void exit_kernel(const __grid_constant__ HcParams p) {
  wait_for_predecessor();
  const int row = blockIdx.y;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.hidden) {
    return;
  }
  float* streams = p.streams.data + row * p.streams.ld + i;
  const float* comb = p.exit_comb.data + row * p.exit_comb.ld;
  float old[kMaxHc];
#pragma unroll
  for (int j = 0; j < kMaxHc; ++j) {
    old[j] = j < p.hc ? streams[j * p.hidden] : 0.0F;
  }
  const float out = p.exit_y.data[row * p.exit_y.ld + i];
  for (int k = 0; k < p.hc; ++k) {
    float sum = p.exit_post.data[row * p.exit_post.ld + k] * out;
#pragma unroll
    for (int j = 0; j < kMaxHc; ++j) {
      sum += j < p.hc ? comb[j * p.hc + k] * old[j] : 0.0F;
    }
    streams[k * p.hidden] = sum;
  }
}

template <Format F>
__global__ void embed_float_kernel(int hc, StepView step, DeviceWeight table, View<float> streams) {
  wait_for_predecessor();
  const int row = blockIdx.y;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= table.cols) {
    return;
  }
  const WeightRow w = weight_row(table, F, 0, step.tokens[row]);
  float v = float_value<F>(w.codes, i);
  if constexpr (F == Format::kF8) {
    const int stride = ceil_div(table.cols, table.scale_cols);
    v *= reinterpret_cast<const float*>(
        table.scales)[step.tokens[row] / table.scale_rows * stride + i / table.scale_cols];
  }
  for (int j = 0; j < hc; ++j) {
    streams.data[row * streams.ld + j * table.cols + i] = v;
  }
}

// One thread a chunk.
template <Format F>
__global__ void embed_int_kernel(int hc, StepView step, DeviceWeight table, View<float> streams) {
  wait_for_predecessor();
  const int row = blockIdx.y;
  constexpr int kSegments = Chunk<F>::kSegments;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= table.cols / (16 * kSegments)) {
    return;
  }
  const WeightRow w = weight_row(table, F, 0, step.tokens[row]);
  uint32_t q[4 * kSegments];
  float scale[kSegments];
  float minimum[kSegments] = {};
  Chunk<F>::load(w, c).decode(table.grid, q, scale, minimum);
#pragma unroll
  for (int e = 0; e < 16 * kSegments; ++e) {
    const int s = e / 16;
    const int code = static_cast<int8_t>(q[e / 4] >> (e % 4 * 8));
    const float v = scale[s] * static_cast<float>(code) - minimum[s];
    for (int j = 0; j < hc; ++j) {
      streams.data[row * streams.ld + j * table.cols + 16 * Chunk<F>::piece(c, s) + e % 16] = v;
    }
  }
}

}  // namespace

int hc_parts(int hidden) { return ceil_div(hidden, kPartColumns); }

void hc_enter_rows(const Launch& launch, const HcParams& p) {
  constexpr int kFewRows = 64;
  const int columns = p.hc * p.hidden;
  if (p.rows > kFewRows && !p.head && p.fn.format == Format::kF32 && p.fn.rows == kManyMix &&
      columns % kManyColumns == 0 && columns / kManyColumns <= hc_parts(p.hidden)) {
    if (p.exit_y.data != nullptr) {
      hc_exit_rows(launch, p);
    }
    start(launch, mix_many_kernel, dim3(columns / kManyColumns, ceil_div(p.rows, kManyRows)), 256, 0, p);
    start(launch, mix_finish_kernel, dim3(2, p.rows), kFinishThreads, static_cast<size_t>(p.hidden) * sizeof(float), p,
          columns / kManyColumns);
    return;
  }
  const int parts = hc_parts(p.hidden);
  const int threads = p.hc * kPartColumns;
  const int mix = p.fn.rows;
  const size_t bytes = static_cast<size_t>((mix + 1) * (threads + 1) + (mix + 1) * p.hc) * sizeof(float);
  const dim3 grid(parts, p.rows);
  switch (p.fn.format) {
    case Format::kF16:
      start(launch, mix_part_kernel<Format::kF16>, grid, threads, bytes, p);
      break;
    case Format::kBF16:
      start(launch, mix_part_kernel<Format::kBF16>, grid, threads, bytes, p);
      break;
    default:
      start(launch, mix_part_kernel<Format::kF32>, grid, threads, bytes, p);
      break;
  }
  start(launch, mix_finish_kernel, dim3(p.head ? 1 : 2, p.rows), kFinishThreads,
        static_cast<size_t>(p.hidden) * sizeof(float), p, parts);
}

void hc_exit_rows(const Launch& launch, const HcParams& p) {
  start(launch, exit_kernel, dim3(ceil_div(p.hidden, 128), p.rows), 128, 0, p);
}

void embed_rows(const Launch& launch, int rows, int hc, const StepView& step, const DeviceWeight& table,
                View<float> streams) {
  const dim3 by_value(ceil_div(table.cols, 128), rows);
  const auto by_chunk = [&](int weights) { return dim3(ceil_div(table.cols / weights, 64), rows); };
  switch (table.format) {
#define FATHOM_CASE(F)                                                                \
  case F:                                                                             \
    start(launch, embed_float_kernel<F>, by_value, 128, 0, hc, step, table, streams); \
    break
    FATHOM_CASE(Format::kF32);
    FATHOM_CASE(Format::kF16);
    FATHOM_CASE(Format::kBF16);
    FATHOM_CASE(Format::kF8);
#undef FATHOM_CASE
#define FATHOM_CASE(F)                                                                                       \
  case F:                                                                                                    \
    start(launch, embed_int_kernel<F>, by_chunk(16 * Chunk<F>::kSegments), 64, 0, hc, step, table, streams); \
    break
    FATHOM_CASE(Format::kQ8_0);
    FATHOM_CASE(Format::kMXFP4);
    FATHOM_CASE(Format::kQ4_K);
    FATHOM_CASE(Format::kQ2_K);
    FATHOM_CASE(Format::kQ3_K);
    FATHOM_CASE(Format::kIQ2_XXS);
#undef FATHOM_CASE
  }
}

}  // namespace fathom::cuda
