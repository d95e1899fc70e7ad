// Q8_0 times several rows of activations on the tensor cores, as integers: y[T, N] = x[T, K] w[N, K]^T. Weights are
// read once for all rows, straight into the fragments; activations are two int8 parts, so that they keep 15 bits.
#pragma once

#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

// c[16 x 8] += a[16 x 32] b[32 x 8], signed bytes. Any order of the 32 columns will do that both operands share: here a
// lane has eight neighbours.
__device__ inline void multiply_add_int8(int (&c)[4], const uint32_t (&a)[4], uint2 b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

constexpr int kMmaThreads = 256;
constexpr int kMmaWarps = kMmaThreads / kWarp;

// N: eights of rows of x. Warps share the columns.
template <int N>
__global__ void __launch_bounds__(kMmaThreads)
    multiply_mma_kernel(const __grid_constant__ ProductList list, int rows, QuantRows q) {
  __shared__ float shared[kMmaWarps / 2][N * 8][kMmaRows + 1];
  int k = 0;
  while (static_cast<int>(blockIdx.x) >= list.first_tile[k + 1]) {
    ++k;
  }
  const ProductTask& task = list.tasks[k];
  const int first_row = (static_cast<int>(blockIdx.x) - list.first_tile[k]) * kMmaRows;
  const int column = task.group_rows > 0 ? first_row / task.group_rows * task.w.cols : 0;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int g = lane / 4;
  const int t = lane % 4;
  const int blocks = task.w.cols / 32;
  const uint8_t* codes[2];
  const __half* scales[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const auto row = static_cast<size_t>(first_row + g + 8 * h);
    codes[h] = task.w.codes + row * task.w.cols + 8 * t;
    scales[h] = reinterpret_cast<const __half*>(task.w.scales) + row * blocks;
  }
  const int x_blocks = q.cols / 32;
  const int first_x = static_cast<int>(blockIdx.y) * N * 8;
  wait_for_predecessor();
  let_successor_start();
  float sum[N][4] = {};
#pragma unroll 2
  for (int b = warp; b < blocks; b += kMmaWarps) {
    const uint2 w0 = __ldg(reinterpret_cast<const uint2*>(codes[0] + 32 * b));
    const uint2 w1 = __ldg(reinterpret_cast<const uint2*>(codes[1] + 32 * b));
    const float d[2] = {__half2float(scales[0][b]), __half2float(scales[1][b])};
    const uint32_t a[4] = {w0.x, w1.x, w0.y, w1.y};
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int x_row = min(first_x + n * 8 + g, rows - 1);
      const int64_t at = static_cast<int64_t>(x_row) * q.cols + column + 32 * b + 8 * t;
      int high[4] = {};
      int low[4] = {};
      multiply_add_int8(high, a, *reinterpret_cast<const uint2*>(q.codes + at));
      multiply_add_int8(low, a, *reinterpret_cast<const uint2*>(q.low + at));
      const int x_block = column / 32 + b;
      const float s[2] = {
          q.scales[static_cast<int64_t>(min(first_x + n * 8 + 2 * t, rows - 1)) * x_blocks + x_block],
          q.scales[static_cast<int64_t>(min(first_x + n * 8 + 2 * t + 1, rows - 1)) * x_blocks + x_block]};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float v = static_cast<float>(high[i]) + static_cast<float>(low[i]) * (1.0F / 254.0F);
        sum[n][i] += v * (d[i / 2] * s[i % 2]);
      }
    }
  }
  // The upper half of the warps hands its sums to the lower one, which adds them up.
  const auto place = [&](int w, int n, int i) -> float& { return shared[w][n * 8 + 2 * t + i % 2][g + i / 2 * 8]; };
  for (int half = kMmaWarps / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          place(warp - half, n, i) = sum[n][i];
        }
      }
    }
    __syncthreads();
    if (warp < half) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[n][i] += place(warp, n, i);
        }
      }
    }
    __syncthreads();
  }
  if (warp == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_x + n * 8 + 2 * t + i % 2;
        if (row < rows) {
          task.y.data[row * task.y.ld + first_row + g + i / 2 * 8] = sum[n][i];
        }
      }
    }
  }
}

}  // namespace fathom::cuda
