// Dot products of weight rows with a few rows of activations, the inside of every kernel for few rows.
#pragma once

#include "backend/cuda/kernels/decode.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

constexpr int kGemvThreads = 256;
constexpr int kGemvRows = 16;  // of the weight, in one block
constexpr int kGemvBatch = 4;  // rows of x in one block, when there are several
constexpr int kFloatThreads = 128;
constexpr int kFloatRows = kFloatThreads / kWarp;
constexpr int kFloatBatch = 4;

// A whole warp: lane i holds value i of block b.
__device__ inline void store_quantized(const QuantRows& q, int row, int b, float v) {
  const float scale = warp_max(fabsf(v)) * (1.0F / 127.0F);
  const int code = scale > 0.0F ? __float2int_rn(v / scale) : 0;
  const int lane = threadIdx.x % kWarp;
  q.codes[static_cast<int64_t>(row) * q.cols + b * 32 + lane] = static_cast<int8_t>(code);
  if (lane == 0) {
    q.scales[static_cast<int64_t>(row) * (q.cols / 32) + b] = scale;
  }
}

// T rows of int8 activations in shared memory, permuted and padded so that a lane finds the segments of its chunk side
// by side and eight lanes never meet in a bank.
template <Format F, int T>
class StagedRows {
 public:
  static constexpr int kSegments = Chunk<F>::kSegments;
  static constexpr int kChunkBytes = kSegments == 1 ? 16 : kSegments * 16 + 16;

  __host__ __device__ static constexpr size_t row_code_bytes(int cols) {
    return static_cast<size_t>(cols / (16 * kSegments)) * kChunkBytes;
  }
  __host__ __device__ static constexpr size_t bytes(int cols) {
    return T * (row_code_bytes(cols) + static_cast<size_t>(cols / 16) * 4 * (Chunk<F>::kHasMinimum ? 2 : 1));
  }

  __device__ StagedRows(void* shared, int cols) : codes_(static_cast<uint8_t*>(shared)), cols_(cols) {
    scales_ = reinterpret_cast<float*>(codes_ + T * row_code_bytes(cols));
    sums_ = scales_ + T * (cols / 16);
  }
  __device__ uint8_t* end() const { return codes_ + bytes(cols_); }
  __device__ int chunks() const { return cols_ / (16 * kSegments); }

  // Rows [first, first + n) of q, columns from `column` on; rows beyond n become zeros. All threads of the block.
  __device__ void stage(const QuantRows& q, int first, int n, int column) {
    const int pieces = cols_ / 16;
    for (int i = threadIdx.x; i < T * pieces; i += blockDim.x) {
      const int t = i / pieces;
      const int p = i % pieces;
      uint4 v = make_uint4(0, 0, 0, 0);
      float scale = 0.0F;
      if (t < n) {
        const int64_t at = static_cast<int64_t>(first + t) * q.cols + column + p * 16;
        v = *reinterpret_cast<const uint4*>(q.codes + at);
        scale = q.scales[at / 32];
      }
      const int c = Chunk<F>::chunk_of(p);
      const int s = Chunk<F>::segment_of(p);
      *reinterpret_cast<uint4*>(codes_ + t * row_code_bytes(cols_) + c * kChunkBytes + 16 * s) = v;
      scales_[t * pieces + c * kSegments + s] = scale;
      if constexpr (Chunk<F>::kHasMinimum) {
        int sum = 0;
        sum = __dp4a(static_cast<int>(v.x), 0x01010101, sum);
        sum = __dp4a(static_cast<int>(v.y), 0x01010101, sum);
        sum = __dp4a(static_cast<int>(v.z), 0x01010101, sum);
        sum = __dp4a(static_cast<int>(v.w), 0x01010101, sum);
        sums_[t * pieces + c * kSegments + s] = scale * static_cast<float>(sum);
      }
    }
  }

  __device__ uint4 codes(int t, int chunk, int segment) const {
    return *reinterpret_cast<const uint4*>(codes_ + t * row_code_bytes(cols_) + chunk * kChunkBytes + 16 * segment);
  }
  __device__ float scale(int t, int chunk, int segment) const {
    return scales_[t * (cols_ / 16) + chunk * kSegments + segment];
  }
  __device__ float sum(int t, int chunk, int segment) const {
    return sums_[t * (cols_ / 16) + chunk * kSegments + segment];
  }

 private:
  uint8_t* codes_;
  float* scales_;
  float* sums_;
  int cols_;
};

template <Format F>
__host__ __device__ constexpr size_t grid_bytes() {
  return F == Format::kIQ2_XXS ? 2048 : 0;
}

// Copies the grid of the format to shared memory; needs a barrier after it.
template <Format F>
__device__ const uint64_t* stage_grid(void* shared, const uint64_t* grid) {
  if constexpr (F == Format::kIQ2_XXS) {
    auto* to = static_cast<uint64_t*>(shared);
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
      to[i] = grid[i];
    }
    return to;
  }
  return nullptr;
}

__device__ inline int dot16(const uint32_t* w, uint4 x, int sum) {
  sum = __dp4a(static_cast<int>(w[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(w[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(w[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(w[3]), static_cast<int>(x.w), sum);
}

template <Format F, int T>
__device__ inline void dot_chunk(const Chunk<F>& chunk, const StagedRows<F, T>& x, int c, const uint64_t* grid,
                                 float (&sum)[T]) {
  constexpr int kSegments = Chunk<F>::kSegments;
  uint32_t q[4 * kSegments];
  float scale[kSegments];
  float minimum[kSegments];
  chunk.decode(grid, q, scale, minimum);
#pragma unroll
  for (int t = 0; t < T; ++t) {
    constexpr int kStep = Chunk<F>::kScalePairs ? 2 : 1;
#pragma unroll
    for (int s = 0; s < kSegments; s += kStep) {
      int dot = dot16(q + 4 * s, x.codes(t, c, s), 0);
      if constexpr (kStep == 2) {
        dot = dot16(q + 4 * s + 4, x.codes(t, c, s + 1), dot);
      }
      sum[t] += static_cast<float>(dot) * (scale[s] * x.scale(t, c, s));
      if constexpr (Chunk<F>::kHasMinimum) {
        sum[t] -= minimum[s] * x.sum(t, c, s);
      }
    }
  }
}

// One lane's share of R rows times T rows: chunks lane, lane + 32, ... Several loads are in flight before the first is
// used.
template <Format F, int T, int R>
__device__ inline void dot_rows(const WeightRow (&w)[R], const StagedRows<F, T>& x, const uint64_t* grid,
                                float (&sum)[R][T]) {
  constexpr int kDepth = Chunk<F>::kSegments == 1 ? 4 : 2;
  const int chunks = x.chunks();
  for (int first = threadIdx.x % kWarp; first < chunks; first += kWarp * kDepth) {
    Chunk<F> loaded[kDepth][R];
#pragma unroll
    for (int u = 0; u < kDepth; ++u) {
      const int c = first + u * kWarp;
      if (c < chunks) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          loaded[u][r] = Chunk<F>::load(w[r], c);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kDepth; ++u) {
      const int c = first + u * kWarp;
      if (c < chunks) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          dot_chunk<F, T>(loaded[u][r], x, c, grid, sum[r]);
        }
      }
    }
  }
}

template <Format F>
__device__ inline float float_value(const uint8_t* row, int64_t i) {
  if constexpr (F == Format::kF32) {
    return reinterpret_cast<const float*>(row)[i];
  } else if constexpr (F == Format::kF16) {
    return __half2float(reinterpret_cast<const __half*>(row)[i]);
  } else if constexpr (F == Format::kBF16) {
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(row)[i]);
  } else {
    return e4m3(row[i]);
  }
}

template <Format F>
__device__ inline float4 four_float_values(const uint8_t* row, int i) {
  if constexpr (F == Format::kF32) {
    return __ldg(reinterpret_cast<const float4*>(row) + i / 4);
  } else if constexpr (F == Format::kF8) {
    const uint32_t v = __ldg(reinterpret_cast<const uint32_t*>(row) + i / 4);
    return make_float4(e4m3(v & 0xFF), e4m3((v >> 8) & 0xFF), e4m3((v >> 16) & 0xFF), e4m3(v >> 24));
  } else {
    const uint2 v = __ldg(reinterpret_cast<const uint2*>(row) + i / 4);
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&v);
    return make_float4(float_value<F>(bytes, 0), float_value<F>(bytes, 1), float_value<F>(bytes, 2),
                       float_value<F>(bytes, 3));
  }
}

// One lane's share of a row of a float format times T rows of float32 activations.
template <Format F, int T>
__device__ inline void dot_float_row(const DeviceWeight& w, int slice, int row, const float* x, int64_t ldx,
                                     int first_x, int n_x, float (&sum)[T]) {
  const uint8_t* codes = weight_row(w, F, slice, row).codes;
  const auto* scales = reinterpret_cast<const float*>(w.scales + slice * w.scales_stride);
  const int scale_stride = F == Format::kF8 ? ceil_div(w.cols, w.scale_cols) : 0;
  const float* row_scales = F == Format::kF8 ? scales + row / w.scale_rows * scale_stride : nullptr;
  const int lane = threadIdx.x % kWarp;
  const bool by_four = w.cols % 4 == 0 && ldx % 4 == 0 && (F != Format::kF8 || w.scale_cols % 4 == 0);
  if (by_four) {
#pragma unroll 4
    for (int i = 4 * lane; i < w.cols; i += 4 * kWarp) {
      float4 v = four_float_values<F>(codes, i);
      if constexpr (F == Format::kF8) {
        const float s = row_scales[i / w.scale_cols];
        v = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
      }
#pragma unroll
      for (int t = 0; t < T; ++t) {
        if (first_x + t < n_x) {
          const float4 a = *reinterpret_cast<const float4*>(x + (first_x + t) * ldx + i);
          sum[t] += v.x * a.x + v.y * a.y + v.z * a.z + v.w * a.w;
        }
      }
    }
    return;
  }
  for (int i = lane; i < w.cols; i += kWarp) {
    float v = float_value<F>(codes, i);
    if constexpr (F == Format::kF8) {
      v *= row_scales[i / w.scale_cols];
    }
#pragma unroll
    for (int t = 0; t < T; ++t) {
      if (first_x + t < n_x) {
        sum[t] += v * x[(first_x + t) * ldx + i];
      }
    }
  }
}

}  // namespace fathom::cuda
