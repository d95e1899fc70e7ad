// Products for few rows: one pass over the weight at memory speed.
#include "backend/cuda/kernels/decode.cuh"
#include "backend/cuda/kernels/few_rows_mma.cuh"
#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {
namespace {

constexpr int kQuantThreads = 256;

// One warp per block of 32.
__global__ void quantize_kernel(int n_blocks, int cols, View<const float> x, QuantRows q) {
  wait_for_predecessor();
  const int block = blockIdx.x * (kQuantThreads / kWarp) + threadIdx.x / kWarp;
  if (block >= n_blocks) {
    return;
  }
  const int row = block / (cols / 32);
  const int b = block % (cols / 32);
  const float v = x.data[row * x.ld + b * 32 + threadIdx.x % kWarp];
  store_quantized(q, row, b, v);
}

__global__ void __launch_bounds__(1024)
    rms_norm_kernel(int cols, float eps, const float* gain, View<const float> x, View<float> y, QuantRows q) {
  __shared__ float shared[32];
  wait_for_predecessor();
  const float* in = x.data + blockIdx.x * x.ld;
  float* out = y.data + blockIdx.x * y.ld;
  float sum = 0.0F;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    sum += in[i] * in[i];
  }
  const float r = rsqrtf(block_sum(sum, shared) / static_cast<float>(cols) + eps);
  for (int first = 0; first < cols; first += blockDim.x) {
    const int i = first + threadIdx.x;
    const float v = i < cols ? in[i] * r * gain[i] : 0.0F;
    if (i < cols) {
      out[i] = v;
    }
    if (q.codes != nullptr && first + static_cast<int>(threadIdx.x / kWarp) * kWarp < cols) {
      store_quantized(q, blockIdx.x, i / 32, v);
    }
  }
}

__device__ int task_of(const ProductList& list, int tile) {
  int k = 0;
  while (tile >= list.first_tile[k + 1]) {
    ++k;
  }
  return k;
}

// P times R rows of the weight for each warp, T rows of x at a time. Tiles do not cross groups: a block reads one range
// of columns.
template <Format F, int T, int R, int P>
__device__ void multiply_int_tile(const ProductList& list, int tile, int rows, const QuantRows& q) {
  extern __shared__ uint4 shared_bytes[];
  constexpr int kTileRows = kGemvThreads / kWarp * R * P;
  __shared__ float results[kTileRows];
  const int k = task_of(list, tile);
  const ProductTask& task = list.tasks[k];
  const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
  const int group_tiles = ceil_div(group_rows, kTileRows);
  const int group = (tile - list.first_tile[k]) / group_tiles;
  const int first_row = group * group_rows + (tile - list.first_tile[k]) % group_tiles * kTileRows;
  const int end_row = min((group + 1) * group_rows, task.w.rows);
  const int first_x = blockIdx.y * T;
  StagedRows<F, T> x(shared_bytes, task.w.cols);
  const uint64_t* grid = spread_grid<F>(x.end(), task.w.grid);

  const int local = static_cast<int>(threadIdx.x / kWarp) * R * P;
  auto dots = make_row_dots<F, T, R, P>(
      [&](int i) { return weight_row(task.w, F, 0, min(first_row + local + i, end_row - 1)); }, x.chunks());
  dots.start();
  wait_for_predecessor();
  let_successor_start();
  x.stage(q, first_x, min(T, rows - first_x), group * task.w.cols);
  __syncthreads();
  dots.finish(x, grid, [&](int pass, float(&sum)[R][T]) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int in_tile = local + pass * R + r;
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const float v = warp_sum(sum[r][t]);
        if (threadIdx.x % kWarp == 0 && first_row + in_tile < end_row && first_x + t < rows) {
          task.y.data[(first_x + t) * task.y.ld + first_row + in_tile] = v;
          results[in_tile] = v;
        }
      }
    }
  });
  if constexpr (T == 1 && kTileRows == kWarp) {
    if (task.q.codes != nullptr) {
      __syncthreads();
      if (threadIdx.x < kWarp) {
        store_quantized(task.q, first_x, first_row / kWarp, results[threadIdx.x]);
      }
    }
  }
}

template <Format F, int T, int R, int P>
__global__ void __launch_bounds__(kGemvThreads, T == 1 ? 4 : 1)
    multiply_int_kernel(const __grid_constant__ ProductList list, int rows, QuantRows q) {
  multiply_int_tile<F, T, R, P>(list, blockIdx.x, rows, q);
}

// kLanes: threads that share one row, a warp or the whole block (for matrices with few rows).
template <Format F, int T, int kThreads, int kLanes>
__device__ void multiply_float_tile(const ProductList& list, int tile, int rows, const View<const float>& x) {
  __shared__ float shared[32];
  const int k = task_of(list, tile);
  const ProductTask& task = list.tasks[k];
  const int row = (tile - list.first_tile[k]) * (kThreads / kLanes) + static_cast<int>(threadIdx.x) / kLanes;
  if (row >= task.w.rows) {
    wait_for_predecessor();
    return;
  }
  const int first_x = blockIdx.y * T;
  FloatDots<F, T> dots(task.w, 0, row, threadIdx.x % kLanes, kLanes);
  dots.start();
  wait_for_predecessor();
  let_successor_start();
  const float* in = x.data + (task.group_rows > 0 ? row / task.group_rows * task.w.cols : 0);
  float sum[T] = {};
  dots.finish(in, x.ld, first_x, rows, sum);
#pragma unroll
  for (int t = 0; t < T; ++t) {
    const float v = kLanes == kWarp ? warp_sum(sum[t]) : block_sum(sum[t], shared);
    if (threadIdx.x % kLanes == 0 && first_x + t < rows) {
      task.y.data[(first_x + t) * task.y.ld + row] = v;
    }
  }
}

template <Format F, int T, bool kWholeBlock>
__global__ void __launch_bounds__(kFloatThreads)
    multiply_float_kernel(const __grid_constant__ ProductList list, int rows, View<const float> x) {
  multiply_float_tile<F, T, kFloatThreads, kWholeBlock ? kFloatThreads : kWarp>(list, blockIdx.x, rows, x);
}

// The blocks of `list` first, then those of `floats`.
template <Format FFloat, int R, int P>
__global__ void __launch_bounds__(kGemvThreads, 4)
    multiply_mixed_kernel(const __grid_constant__ ProductList list, const __grid_constant__ ProductList floats,
                          View<const float> x, QuantRows q) {
  const int n = list.first_tile[list.n];
  if (static_cast<int>(blockIdx.x) < n) {
    multiply_int_tile<Format::kQ8_0, 1, R, P>(list, blockIdx.x, 1, q);
  } else {
    multiply_float_tile<FFloat, 1, kGemvThreads, kWarp>(floats, static_cast<int>(blockIdx.x) - n, 1, x);
  }
}

template <int kTileRows>
int count_tiles(ProductList& list) {
  int cols = 0;
  for (int i = 0; i < list.n; ++i) {
    const ProductTask& task = list.tasks[i];
    const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
    list.first_tile[i + 1] = list.first_tile[i] + task.w.rows / group_rows * ceil_div(group_rows, kTileRows);
    cols = task.w.cols > cols ? task.w.cols : cols;
  }
  return cols;
}

int count_rows(const ProductList& list) {
  int rows = 0;
  for (int i = 0; i < list.n; ++i) {
    rows += list.tasks[i].w.rows;
  }
  return rows;
}

template <Format F, int T, int R, int P>
void launch_int(const Launch& launch, ProductList& list, int rows, QuantRows q) {
  const int cols = count_tiles<kGemvThreads / kWarp * R * P>(list);
  const size_t bytes = StagedRows<F, T>::bytes(cols) + spread_grid_bytes<F>();
  start(launch, multiply_int_kernel<F, T, R, P>, dim3(list.first_tile[list.n], ceil_div(rows, T)), kGemvThreads, bytes,
        list, rows, q);
}

// How many rows a warp takes: enough to keep loads in flight, few enough to occupy the device.
template <Format F>
void launch_int(const Launch& launch, ProductList& list, int rows, int weight_rows, QuantRows q) {
  if (rows > 1) {
    launch_int<F, kGemvBatch, 2, 1>(launch, list, rows, q);
  } else if (weight_rows <= 32 * launch.multiprocessors) {
    launch_int<F, 1, 1, 1>(launch, list, rows, q);
  } else if (list.tasks[0].w.cols <= 1024) {
    launch_int<F, 1, 2, 4>(launch, list, rows, q);
  } else {
    launch_int<F, 1, 2, 2>(launch, list, rows, q);
  }
}

template <Format F, int T, bool kWholeBlock>
void launch_float(const Launch& launch, const ProductList& list, int rows, View<const float> x) {
  start(launch, multiply_float_kernel<F, T, kWholeBlock>, dim3(list.first_tile[list.n], ceil_div(rows, T)),
        kFloatThreads, 0, list, rows, x);
}

constexpr int kSimtTile = 64;
constexpr int kSimtDepth = 16;
constexpr int kSimtThreads = 256;

// 64 x 64 outputs a block, 4 x 4 a thread, float32 all through.
__global__ void __launch_bounds__(kSimtThreads)
    multiply_f32_kernel(const __grid_constant__ ProductTask task, int rows, View<const float> x) {
  __shared__ float xs[kSimtDepth][kSimtTile + 4];
  __shared__ float ws[kSimtDepth][kSimtTile + 4];
  wait_for_predecessor();
  const int first_row = static_cast<int>(blockIdx.y) * kSimtTile;
  const int first_out = static_cast<int>(blockIdx.x) * kSimtTile;
  const auto* w = reinterpret_cast<const float*>(task.w.codes);
  const int load_row = static_cast<int>(threadIdx.x) / 4;
  const int load_k = static_cast<int>(threadIdx.x) % 4 * 4;
  const float* x_from = x.data + min(first_row + load_row, rows - 1) * x.ld + load_k;
  const float* w_from = w + static_cast<int64_t>(min(first_out + load_row, task.w.rows - 1)) * task.w.cols + load_k;
  const int r = static_cast<int>(threadIdx.x) / 16 * 4;
  const int c = static_cast<int>(threadIdx.x) % 16 * 4;
  float sum[4][4] = {};
  float4 next_x = *reinterpret_cast<const float4*>(x_from);
  float4 next_w = *reinterpret_cast<const float4*>(w_from);
  for (int k = 0; k < task.w.cols; k += kSimtDepth) {
    __syncthreads();
    const float xv[4] = {next_x.x, next_x.y, next_x.z, next_x.w};
    const float wv[4] = {next_w.x, next_w.y, next_w.z, next_w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      xs[load_k + i][load_row] = xv[i];
      ws[load_k + i][load_row] = wv[i];
    }
    __syncthreads();
    if (k + kSimtDepth < task.w.cols) {
      next_x = *reinterpret_cast<const float4*>(x_from + k + kSimtDepth);
      next_w = *reinterpret_cast<const float4*>(w_from + k + kSimtDepth);
    }
#pragma unroll
    for (int d = 0; d < kSimtDepth; ++d) {
      const float4 a = *reinterpret_cast<const float4*>(&xs[d][r]);
      const float4 b = *reinterpret_cast<const float4*>(&ws[d][c]);
      const float av[4] = {a.x, a.y, a.z, a.w};
      const float bv[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum[i][j] += av[i] * bv[j];
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first_row + r + i < rows && first_out + c + j < task.w.rows) {
        task.y.data[(first_row + r + i) * task.y.ld + first_out + c + j] = sum[i][j];
      }
    }
  }
}

}  // namespace

bool can_multiply_many_f32_rows(const ProductTask& task, View<const float> x) {
  return task.w.format == Format::kF32 && task.w.cols % kSimtDepth == 0 && x.ld % 4 == 0 && task.group_rows == 0;
}

void multiply_many_f32_rows(const Launch& launch, const ProductTask& task, int rows, View<const float> x) {
  start(launch, multiply_f32_kernel, dim3(ceil_div(task.w.rows, kSimtTile), ceil_div(rows, kSimtTile)), kSimtThreads, 0,
        task, rows, x);
}

bool can_multiply_rows_as_int8(const ProductTask& task, int rows) {
  const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
  return rows > 1 && task.w.format == Format::kQ8_0 && group_rows % kMmaRows == 0 && task.w.cols % 32 == 0;
}

void multiply_rows_as_int8(const Launch& launch, ProductList list, int rows, QuantRows q) {
  for (int i = 0; i < list.n; ++i) {
    list.first_tile[i + 1] = list.first_tile[i] + list.tasks[i].w.rows / kMmaRows;
  }
  const auto run = [&](auto* kernel, int eights) {
    start(launch, kernel, dim3(list.first_tile[list.n], ceil_div(rows, 8 * eights)), kMmaThreads, 0, list, rows, q);
  };
  if (rows <= 8) {
    run(multiply_mma_kernel<1>, 1);
  } else if (rows <= 16) {
    run(multiply_mma_kernel<2>, 2);
  } else {
    run(multiply_mma_kernel<4>, 4);
  }
}

bool can_multiply_mixed(Format integer, Format floating, int rows) {
  return rows == 1 && integer == Format::kQ8_0 &&
         (floating == Format::kF16 || floating == Format::kBF16 || floating == Format::kF32);
}

void multiply_mixed(const Launch& launch, ProductList list, ProductList floats, View<const float> x, QuantRows q) {
  constexpr int kWarps = kGemvThreads / kWarp;
  for (int i = 0; i < floats.n; ++i) {
    floats.first_tile[i + 1] = floats.first_tile[i] + ceil_div(floats.tasks[i].w.rows, kWarps);
  }
  const bool few = count_rows(list) <= 32 * launch.multiprocessors;
  const int cols = few ? count_tiles<kWarps>(list) : count_tiles<kWarps * 8>(list);
  const dim3 grid(list.first_tile[list.n] + floats.first_tile[floats.n]);
  const size_t bytes = StagedRows<Format::kQ8_0, 1>::bytes(cols);
  const auto run = [&](auto* one, auto* eight) {
    start(launch, few ? one : eight, grid, kGemvThreads, bytes, list, floats, x, q);
  };
  switch (floats.tasks[0].w.format) {
    case Format::kF16:
      return run(multiply_mixed_kernel<Format::kF16, 1, 1>, multiply_mixed_kernel<Format::kF16, 2, 4>);
    case Format::kBF16:
      return run(multiply_mixed_kernel<Format::kBF16, 1, 1>, multiply_mixed_kernel<Format::kBF16, 2, 4>);
    default:
      return run(multiply_mixed_kernel<Format::kF32, 1, 1>, multiply_mixed_kernel<Format::kF32, 2, 4>);
  }
}

bool can_quantize_product(const DeviceWeight& w, int rows, int multiprocessors) {
  return has_integer_codes(w.format) && rows == 1 && w.rows > 32 * multiprocessors && w.rows % kWarp == 0 &&
         w.cols > 1024;
}

void quantize_rows(const Launch& launch, int rows, View<const float> x, QuantRows q) {
  const int n_blocks = rows * (q.cols / 32);
  start(launch, quantize_kernel, dim3(ceil_div(n_blocks, kQuantThreads / kWarp)), kQuantThreads, 0, n_blocks, q.cols, x,
        q);
}

void rms_norm_rows(const Launch& launch, int rows, int cols, float eps, const float* gain, View<const float> x,
                   View<float> y, QuantRows q) {
  const int threads = cols >= 1024 ? 1024 : ceil_div(cols, kWarp) * kWarp;
  start(launch, rms_norm_kernel, dim3(rows), threads, 0, cols, eps, gain, x, y, q);
}

void multiply_few_rows(const Launch& launch, Format format, ProductList list, int rows, View<const float> x,
                       QuantRows q) {
  const int weight_rows = count_rows(list);
  const bool whole_block = weight_rows <= 8 * launch.multiprocessors;
  if (!has_integer_codes(format)) {
    for (int i = 0; i < list.n; ++i) {
      const int tiles = whole_block ? list.tasks[i].w.rows : ceil_div(list.tasks[i].w.rows, kFloatRows);
      list.first_tile[i + 1] = list.first_tile[i] + tiles;
    }
  }
  const bool one = rows == 1;
  switch (format) {
#define FATHOM_INT_CASE(F)                             \
  case F:                                              \
    launch_int<F>(launch, list, rows, weight_rows, q); \
    break
#define FATHOM_FLOAT_CASE(F)                                                          \
  case F:                                                                             \
    whole_block ? (one ? launch_float<F, 1, true>(launch, list, rows, x)              \
                       : launch_float<F, kFloatBatch, true>(launch, list, rows, x))   \
                : (one ? launch_float<F, 1, false>(launch, list, rows, x)             \
                       : launch_float<F, kFloatBatch, false>(launch, list, rows, x)); \
    break
    FATHOM_INT_CASE(Format::kQ8_0);
    FATHOM_INT_CASE(Format::kMXFP4);
    FATHOM_INT_CASE(Format::kQ4_K);
    FATHOM_INT_CASE(Format::kQ2_K);
    FATHOM_INT_CASE(Format::kQ3_K);
    FATHOM_INT_CASE(Format::kIQ2_XXS);
    FATHOM_FLOAT_CASE(Format::kF32);
    FATHOM_FLOAT_CASE(Format::kF16);
    FATHOM_FLOAT_CASE(Format::kBF16);
    FATHOM_FLOAT_CASE(Format::kF8);
#undef FATHOM_INT_CASE
#undef FATHOM_FLOAT_CASE
  }
}

}  // namespace fathom::cuda
