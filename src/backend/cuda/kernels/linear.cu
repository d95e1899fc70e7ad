// Products for few rows: one pass over the weight at memory speed.
#include "backend/cuda/kernels/decode.cuh"
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

// P times R rows of the weight for each warp, T rows of x at a time. Tiles do not cross groups: a block reads one range
// of columns.
template <Format F, int T, int R, int P>
__global__ void __launch_bounds__(kGemvThreads, T == 1 ? 4 : 1)
    multiply_int_kernel(const __grid_constant__ ProductList list, int rows, QuantRows q) {
  extern __shared__ uint4 shared_bytes[];
  constexpr int kTileRows = kGemvThreads / kWarp * R * P;
  __shared__ float results[kTileRows];
  const int tile = blockIdx.x;
  int k = 0;
  while (tile >= list.first_tile[k + 1]) {
    ++k;
  }
  const ProductTask& task = list.tasks[k];
  const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
  const int group_tiles = ceil_div(group_rows, kTileRows);
  const int group = (tile - list.first_tile[k]) / group_tiles;
  const int first_row = group * group_rows + (tile - list.first_tile[k]) % group_tiles * kTileRows;
  const int end_row = min((group + 1) * group_rows, task.w.rows);
  const int first_x = blockIdx.y * T;
  StagedRows<F, T> x(shared_bytes, task.w.cols);
  const uint64_t* grid = stage_grid<F>(x.end(), task.w.grid);

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

// kWholeBlock: the block's warps share one row, for matrices with few of them; otherwise each has a row of its own.
template <Format F, int T, bool kWholeBlock>
__global__ void __launch_bounds__(kFloatThreads)
    multiply_float_kernel(const __grid_constant__ ProductList list, int rows, View<const float> x) {
  __shared__ float shared[32];
  const int tile = blockIdx.x;
  int k = 0;
  while (tile >= list.first_tile[k + 1]) {
    ++k;
  }
  const ProductTask& task = list.tasks[k];
  const int in_task = tile - list.first_tile[k];
  const int row = kWholeBlock ? in_task : in_task * kFloatRows + static_cast<int>(threadIdx.x / kWarp);
  if (row >= task.w.rows) {
    wait_for_predecessor();
    return;
  }
  const int first_x = blockIdx.y * T;
  FloatDots<F, T> dots(task.w, 0, row, kWholeBlock ? threadIdx.x : threadIdx.x % kWarp,
                       kWholeBlock ? kFloatThreads : kWarp);
  dots.start();
  wait_for_predecessor();
  let_successor_start();
  const float* in = x.data + (task.group_rows > 0 ? row / task.group_rows * task.w.cols : 0);
  float sum[T] = {};
  dots.finish(in, x.ld, first_x, rows, sum);
#pragma unroll
  for (int t = 0; t < T; ++t) {
    const float v = kWholeBlock ? block_sum(sum[t], shared) : warp_sum(sum[t]);
    if (threadIdx.x % (kWholeBlock ? kFloatThreads : kWarp) == 0 && first_x + t < rows) {
      task.y.data[(first_x + t) * task.y.ld + row] = v;
    }
  }
}

template <Format F, int T, int R, int P>
void launch_int(const Launch& launch, ProductList& list, int rows, QuantRows q) {
  constexpr int kTileRows = kGemvThreads / kWarp * R * P;
  int cols = 0;
  for (int i = 0; i < list.n; ++i) {
    const ProductTask& task = list.tasks[i];
    const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
    list.first_tile[i + 1] = list.first_tile[i] + task.w.rows / group_rows * ceil_div(group_rows, kTileRows);
    cols = task.w.cols > cols ? task.w.cols : cols;
  }
  const size_t bytes = StagedRows<F, T>::bytes(cols) + grid_bytes<F>();
  start(launch, multiply_int_kernel<F, T, R, P>, dim3(list.first_tile[list.n], ceil_div(rows, T)), kGemvThreads, bytes,
        list, rows, q);
}

// How many rows a warp takes: enough to keep loads in flight, few enough to occupy the device.
template <Format F>
void launch_int(const Launch& launch, ProductList& list, int rows, int weight_rows, QuantRows q) {
  if (rows > 1) {
    launch_int<F, kGemvBatch, 2, 1>(launch, list, rows, q);
  } else if (weight_rows <= 16 * launch.multiprocessors) {
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

}  // namespace

bool can_quantize_product(const DeviceWeight& w, int rows, int multiprocessors) {
  return has_integer_codes(w.format) && rows == 1 && w.rows > 16 * multiprocessors && w.rows % kWarp == 0 &&
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
  int weight_rows = 0;
  for (int i = 0; i < list.n; ++i) {
    weight_rows += list.tasks[i].w.rows;
  }
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
