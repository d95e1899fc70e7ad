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

// Rows of `tasks`, R a warp, T rows of x at a time.
template <Format F, int T>
__global__ void __launch_bounds__(kGemvThreads)
    multiply_int_kernel(const __grid_constant__ ProductList list, int rows, QuantRows q) {
  extern __shared__ uint4 shared_bytes[];
  const int tile = blockIdx.x;
  int k = 0;
  while (tile >= list.first_tile[k + 1]) {
    ++k;
  }
  const ProductTask& task = list.tasks[k];
  // Tiles do not cross groups: a block reads one range of columns.
  const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
  const int group_tiles = ceil_div(group_rows, kGemvRows);
  const int group = (tile - list.first_tile[k]) / group_tiles;
  const int first_row = group * group_rows + (tile - list.first_tile[k]) % group_tiles * kGemvRows;
  const int end_row = min((group + 1) * group_rows, task.w.rows);
  const int first_x = blockIdx.y * T;
  const int column = group * task.w.cols;
  StagedRows<F, T> x(shared_bytes, task.w.cols);
  const uint64_t* grid = stage_grid<F>(x.end(), task.w.grid);
  wait_for_predecessor();
  x.stage(q, first_x, min(T, rows - first_x), column);
  __syncthreads();

  constexpr int kRows = kGemvRows / (kGemvThreads / kWarp);
  const int row = first_row + threadIdx.x / kWarp * kRows;
  float sum[kRows][T] = {};
  if (row < end_row) {
    WeightRow w[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r] = weight_row(task.w, F, 0, min(row + r, end_row - 1));
    }
    dot_rows<F, T, kRows>(w, x, grid, sum);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const float v = warp_sum(sum[r][t]);
      if (threadIdx.x % kWarp == 0 && row + r < end_row && first_x + t < rows) {
        task.y.data[(first_x + t) * task.y.ld + row + r] = v;
      }
    }
  }
}

template <Format F, int T>
__global__ void __launch_bounds__(kFloatThreads)
    multiply_float_kernel(const __grid_constant__ ProductList list, int rows, View<const float> x) {
  wait_for_predecessor();
  const int tile = blockIdx.x;
  int k = 0;
  while (tile >= list.first_tile[k + 1]) {
    ++k;
  }
  const ProductTask& task = list.tasks[k];
  const int row = (tile - list.first_tile[k]) * kFloatRows + threadIdx.x / kWarp;
  if (row >= task.w.rows) {
    return;
  }
  const int first_x = blockIdx.y * T;
  const float* in = x.data + (task.group_rows > 0 ? row / task.group_rows * task.w.cols : 0);
  float sum[T] = {};
  dot_float_row<F, T>(task.w, 0, row, in, x.ld, first_x, rows, sum);
#pragma unroll
  for (int t = 0; t < T; ++t) {
    const float v = warp_sum(sum[t]);
    if (threadIdx.x % kWarp == 0 && first_x + t < rows) {
      task.y.data[(first_x + t) * task.y.ld + row] = v;
    }
  }
}

template <Format F, int T>
void launch_int(const Launch& launch, const ProductList& list, int rows, QuantRows q) {
  int cols = 0;
  for (int i = 0; i < list.n; ++i) {
    cols = list.tasks[i].w.cols > cols ? list.tasks[i].w.cols : cols;
  }
  const size_t bytes = StagedRows<F, T>::bytes(cols) + grid_bytes<F>();
  start(launch, multiply_int_kernel<F, T>, dim3(list.first_tile[list.n], ceil_div(rows, T)), kGemvThreads, bytes, list,
        rows, q);
}

template <Format F, int T>
void launch_float(const Launch& launch, const ProductList& list, int rows, View<const float> x) {
  start(launch, multiply_float_kernel<F, T>, dim3(list.first_tile[list.n], ceil_div(rows, T)), kFloatThreads, 0, list,
        rows, x);
}

}  // namespace

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
  for (int i = 0; i < list.n; ++i) {
    const ProductTask& task = list.tasks[i];
    int tiles = ceil_div(task.w.rows, kFloatRows);
    if (has_integer_codes(format)) {
      const int group_rows = task.group_rows > 0 ? task.group_rows : task.w.rows;
      tiles = task.w.rows / group_rows * ceil_div(group_rows, kGemvRows);
    }
    list.first_tile[i + 1] = list.first_tile[i] + tiles;
  }
  const bool one = rows == 1;
  switch (format) {
#define FATHOM_INT_CASE(F)                                                                            \
  case F:                                                                                             \
    one ? launch_int<F, 1>(launch, list, rows, q) : launch_int<F, kGemvBatch>(launch, list, rows, q); \
    break
#define FATHOM_FLOAT_CASE(F)                                                                               \
  case F:                                                                                                  \
    one ? launch_float<F, 1>(launch, list, rows, x) : launch_float<F, kFloatBatch>(launch, list, rows, x); \
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
