// Dot products of weight rows with a few rows of activations, the inside of every kernel for few rows.
#pragma once

#include "backend/cuda/kernels/decode.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

constexpr int kGemvThreads = 256;
constexpr int kGemvBatch = 4;  // rows of x in one block, when there are several
constexpr int kFloatThreads = 128;
constexpr int kFloatRows = kFloatThreads / kWarp;
constexpr int kFloatBatch = 4;

struct TwoCodes {
  int high;
  int low;
};
__device__ inline TwoCodes two_codes(float v, float inverse) {
  const float x = v * inverse;
  const int high = __float2int_rn(x);
  return {high, __float2int_rn((x - static_cast<float>(high)) * 254.0F)};
}
__device__ inline float inverse_scale(float scale) { return scale > 0.0F ? 1.0F / scale : 0.0F; }

// A whole warp: lane i holds value i of block b.
__device__ inline void store_quantized(const QuantRows& q, int row, int b, float v) {
  const float scale = warp_max(fabsf(v)) * (1.0F / 127.0F);
  const TwoCodes code = two_codes(v, inverse_scale(scale));
  const int lane = threadIdx.x % kWarp;
  const int64_t at = static_cast<int64_t>(row) * q.cols + b * 32 + lane;
  q.codes[at] = static_cast<int8_t>(code.high);
  q.low[at] = static_cast<int8_t>(code.low);
  if (lane == 0) {
    q.scales[static_cast<int64_t>(row) * (q.cols / 32) + b] = scale;
  }
}

// Four consecutive values of a row, from `column` on; the eight lanes of a block of 32 call this together.
__device__ inline void store_four_quantized(const QuantRows& q, int row, int column, float4 v) {
  const unsigned lanes = 0xFFU << (threadIdx.x % kWarp & ~7U);
  float largest = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
  for (int step = 1; step < 8; step *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, step));
  }
  const float scale = largest * (1.0F / 127.0F);
  const float inverse = inverse_scale(scale);
  const float values[4] = {v.x, v.y, v.z, v.w};
  uint32_t high = 0;
  uint32_t low = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const TwoCodes code = two_codes(values[i], inverse);
    high |= static_cast<uint32_t>(code.high & 0xFF) << (8 * i);
    low |= static_cast<uint32_t>(code.low & 0xFF) << (8 * i);
  }
  const int64_t at = static_cast<int64_t>(row) * q.cols + column;
  *reinterpret_cast<uint32_t*>(q.codes + at) = high;
  *reinterpret_cast<uint32_t*>(q.low + at) = low;
  if (column % 32 == 0) {
    q.scales[at / 32] = scale;
  }
}

// T rows of int8 activations in shared memory, permuted and padded so that a lane finds the segments of its chunk side
// by side and eight lanes never meet in a bank.
template <Format F, int T>
class StagedRows {
 public:
  static constexpr int kSegments = Chunk<F>::kSegments;
  static constexpr int kChunkBytes = kSegments == 1 ? 16 : kSegments * 16 + 16;
  static constexpr bool kHasLow = F == Format::kQ8_0;  // both codes of each value

  __host__ __device__ static constexpr size_t row_code_bytes(int cols) {
    return static_cast<size_t>(cols / (16 * kSegments)) * kChunkBytes;
  }
  __host__ __device__ static constexpr size_t bytes(int cols) {
    return T * (row_code_bytes(cols) * (kHasLow ? 2 : 1) +
                static_cast<size_t>(cols / 16) * 4 * (Chunk<F>::kHasMinimum ? 2 : 1));
  }

  __device__ StagedRows(void* shared, int cols) : codes_(static_cast<uint8_t*>(shared)), cols_(cols) {
    scales_ = reinterpret_cast<float*>(codes_ + T * row_code_bytes(cols) * (kHasLow ? 2 : 1));
    sums_ = scales_ + T * (cols / 16);
  }
  __device__ uint8_t* end() const { return codes_ + bytes(cols_); }
  __device__ int chunks() const { return cols_ / (16 * kSegments); }

  // Rows [first, first + n) of q, columns from `column` on; rows beyond n become zeros. All threads of the block.
  __device__ void stage(const QuantRows& q, int first, int n, int column) {
    gather(
        q, [=](int t) { return first + t; }, n, column);
  }
  // Row t of n is row(t) of q.
  template <class Row>
  __device__ void gather(const QuantRows& q, Row row, int n, int column) {
    const int pieces = cols_ / 16;
    for (int i = threadIdx.x; i < T * pieces; i += blockDim.x) {
      const int t = i / pieces;
      const int p = i % pieces;
      uint4 v = make_uint4(0, 0, 0, 0);
      [[maybe_unused]] uint4 low = v;
      float scale = 0.0F;
      if (t < n) {
        const int64_t at = static_cast<int64_t>(row(t)) * q.cols + column + p * 16;
        v = *reinterpret_cast<const uint4*>(q.codes + at);
        scale = q.scales[at / 32];
        if constexpr (kHasLow) {
          low = *reinterpret_cast<const uint4*>(q.low + at);
        }
      }
      const int c = Chunk<F>::chunk_of(p);
      const int s = Chunk<F>::segment_of(p);
      if constexpr (kHasLow) {
        *reinterpret_cast<uint4*>(codes_ + (T + t) * row_code_bytes(cols_) + c * kChunkBytes + 16 * s) = low;
      }
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
  __device__ uint4 low(int t, int chunk, int segment) const { return codes(T + t, chunk, segment); }
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

// For few rows: the grid sixteen times, the copies of an entry side by side, so that no two lanes of a half warp meet
// in a bank. Returns the lane's copy: entry e lies at 16 e.
constexpr int kGridCopies = 16;
template <Format F>
__host__ __device__ constexpr size_t spread_grid_bytes() {
  return kGridCopies * grid_bytes<F>();
}
template <Format F>
__device__ const uint64_t* spread_grid(void* shared, const uint64_t* grid) {
  if constexpr (F == Format::kIQ2_XXS) {
    constexpr int kPieces = 256 * kGridCopies / 2 / kGemvThreads;  // of 16 bytes, two copies each
    auto* to = static_cast<ulonglong2*>(shared);
    uint64_t entries[kPieces];  // all on their way before the first is stored
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      entries[i] = __ldg(grid + (threadIdx.x + i * kGemvThreads) / (kGridCopies / 2));
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      to[threadIdx.x + i * kGemvThreads] = make_ulonglong2(entries[i], entries[i]);
    }
    return static_cast<uint64_t*>(shared) + threadIdx.x % kGridCopies;
  }
  return nullptr;
}

__device__ inline int dot16(const uint32_t* w, uint4 x, int sum) {
  sum = __dp4a(static_cast<int>(w[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(w[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(w[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(w[3]), static_cast<int>(x.w), sum);
}

// A chunk of IQ2_XXS. For one row, signs only flip the bits of a magnitude, which makes it one too small where
// negative; a second sum adds that up, on a pipe that has time.
template <int T>
__device__ inline void dot_iq2_chunk(const Chunk<Format::kIQ2_XXS>& chunk, const StagedRows<Format::kIQ2_XXS, T>& x,
                                     int c, const uint64_t* grid, float (&sum)[T]) {
  const uint32_t index[2] = {chunk.codes.x, chunk.codes.z};
  const uint32_t signs[2] = {chunk.codes.y, chunk.codes.w};
  const float quarter = 0.25F * __half2float(__ushort_as_half(chunk.d));
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    int dot[T] = {};
    int ones = 0;
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const uint32_t at = g == 0 ? index[b] << 7 : index[b] >> (8 * g - 7);
      const uint2 m = *reinterpret_cast<const uint2*>(reinterpret_cast<const uint8_t*>(grid) + (at & 0x7F80U));
      const uint32_t s0 = spread_signs(signs[b] << (2 * g));
      const uint32_t s1 = spread_signs(signs[b] << (2 * g + 1));
      uint32_t q0 = m.x ^ s0;
      uint32_t q1 = m.y ^ s1;
      if constexpr (T > 1) {
        q0 += s0 & 0x01010101U;
        q1 += s1 & 0x01010101U;
      }
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const uint4 v = x.codes(t, c, 2 * b + g / 2);
        const auto x0 = static_cast<int>(g % 2 == 0 ? v.x : v.z);
        const auto x1 = static_cast<int>(g % 2 == 0 ? v.y : v.w);
        dot[t] = __dp4a(static_cast<int>(q0), x0, dot[t]);
        dot[t] = __dp4a(static_cast<int>(q1), x1, dot[t]);
        if constexpr (T == 1) {
          ones = __dp4a(static_cast<int>(s0), x0, ones);
          ones = __dp4a(static_cast<int>(s1), x1, ones);
        }
      }
    }
    const float scale = quarter * (0.5F + static_cast<float>((chunk.scales >> (4 * b)) & 0xF));
#pragma unroll
    for (int t = 0; t < T; ++t) {
      sum[t] += static_cast<float>(dot[t] - ones) * (scale * x.scale(t, c, 2 * b));
    }
  }
}

template <Format F, int T>
__device__ inline void dot_chunk(const Chunk<F>& chunk, const StagedRows<F, T>& x, int c, const uint64_t* grid,
                                 float (&sum)[T]) {
  if constexpr (F == Format::kIQ2_XXS) {
    dot_iq2_chunk<T>(chunk, x, c, grid, sum);
    return;
  }
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
      auto value = static_cast<float>(dot);
      if constexpr (StagedRows<F, T>::kHasLow) {
        value += static_cast<float>(dot16(q + 4 * s, x.low(t, c, s), 0)) * (1.0F / 254.0F);
      }
      sum[t] += value * (scale[s] * x.scale(t, c, s));
      if constexpr (Chunk<F>::kHasMinimum) {
        sum[t] -= minimum[s] * x.sum(t, c, s);
      }
    }
  }
}

// One lane's share of P times R rows times T rows: chunks lane, lane + 32, ... of each. Loads run two steps ahead of
// their use, across the rows; start() may run before the activations are there. row(i): row i of P * R.
template <Format F, int T, int R, int P, class Row>
class RowDots {
 public:
  __device__ RowDots(Row row, int chunks) : row_(row), chunks_(chunks) { steps_ = ceil_div(chunks, kWarp * kDepth); }

  __device__ void start() {
    load(buffers_[0], 0);
    load(buffers_[1], 1);
  }

  // done(pass, sums of R rows) is called by the whole warp, with the lane's own shares.
  template <class Done>
  __device__ void finish(const StagedRows<F, T>& x, const uint64_t* grid, Done done) {
    float sum[R][T] = {};
    int step = 0;
    int pass = 0;
    const int total = steps_ * P;
    for (int u = 0; u < total; u += 2) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (u + half < total) {
          use(buffers_[half], step, x, grid, sum);
          if (u + half + 2 < total) {
            load(buffers_[half], u + half + 2);
          }
          if (++step == steps_) {
            done(pass, sum);
            ++pass;
            step = 0;
#pragma unroll
            for (int r = 0; r < R; ++r) {
#pragma unroll
              for (int t = 0; t < T; ++t) {
                sum[r][t] = 0.0F;
              }
            }
          }
        }
      }
    }
  }

 private:
  static constexpr int kDepth = Chunk<F>::kSegments == 1 ? 2 : 1;
  struct Buffer {
    Chunk<F> chunks[kDepth][R];
  };

  __device__ void load(Buffer& to, int u) {
    const int pass = P == 1 ? 0 : u / steps_;
    const int first = (P == 1 ? u : u % steps_) * kWarp * kDepth + static_cast<int>(threadIdx.x % kWarp);
    if (pass >= P) {
      return;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const WeightRow w = row_(pass * R + r);
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        if (first + d * kWarp < chunks_) {
          to.chunks[d][r] = Chunk<F>::load(w, first + d * kWarp);
        }
      }
    }
  }

  __device__ void use(const Buffer& from, int step, const StagedRows<F, T>& x, const uint64_t* grid,
                      float (&sum)[R][T]) {
    const int first = step * kWarp * kDepth + static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (first + d * kWarp < chunks_) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          dot_chunk<F, T>(from.chunks[d][r], x, first + d * kWarp, grid, sum[r]);
        }
      }
    }
  }

  Row row_;
  int chunks_;
  int steps_;
  Buffer buffers_[2];
};

template <Format F, int T, int R, int P, class Row>
__device__ RowDots<F, T, R, P, Row> make_row_dots(Row row, int chunks) {
  return RowDots<F, T, R, P, Row>(row, chunks);
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

// One lane's share of a row of a float format times T rows of float32 activations, by `lanes` lanes together. start()
// may run before the activations are there.
template <Format F, int T>
class FloatDots {
 public:
  __device__ FloatDots(const DeviceWeight& w, int slice, int row, int lane, int lanes)
      : cols_(w.cols), lane_(lane), lanes_(lanes) {
    codes_ = weight_row(w, F, slice, row).codes;
    if constexpr (F == Format::kF8) {
      const auto* scales = reinterpret_cast<const float*>(w.scales + slice * w.scales_stride);
      scales_ = scales + row / w.scale_rows * ceil_div(w.cols, w.scale_cols);
      scale_cols_ = w.scale_cols;
    }
    wide_ = w.cols % kValues == 0 && (F != Format::kF8 || w.scale_cols % kValues == 0);
  }

  __device__ void start() {
    if (wide_) {
      load(lane_);
    }
  }

  __device__ void finish(const float* x, int64_t ldx, int first_x, int n_x, float (&sum)[T]) {
    if (!wide_ || ldx % 4 != 0) {
      finish_narrow(x, ldx, first_x, n_x, sum);
      return;
    }
    for (int first = lane_; first * kValues < cols_; first += kDepth * lanes_) {
      if (first != lane_) {
        load(first);
      }
#pragma unroll
      for (int u = 0; u < kDepth; ++u) {
        const int i = (first + u * lanes_) * kValues;
        if (i < cols_) {
          add(loaded_[u], i, x, ldx, first_x, n_x, sum);
        }
      }
    }
  }

 private:
  static constexpr int kValues = F == Format::kF32 ? 4 : F == Format::kF8 ? 16 : 8;
  static constexpr int kDepth = 4;

  __device__ void load(int first) {
#pragma unroll
    for (int u = 0; u < kDepth; ++u) {
      if ((first + u * lanes_) * kValues < cols_) {
        loaded_[u] = load_codes(codes_ + 16 * static_cast<int64_t>(first + u * lanes_));
      }
    }
  }

  __device__ void add(const uint4& raw, int i, const float* x, int64_t ldx, int first_x, int n_x, float (&sum)[T]) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&raw);
    float v[kValues];
#pragma unroll
    for (int j = 0; j < kValues; ++j) {
      v[j] = float_value<F>(bytes, j);
    }
    if constexpr (F == Format::kF8) {
      const float scale = scales_[i / scale_cols_];
#pragma unroll
      for (int j = 0; j < kValues; ++j) {
        v[j] *= scale;
      }
    }
#pragma unroll
    for (int t = 0; t < T; ++t) {
      if (first_x + t < n_x) {
#pragma unroll
        for (int j = 0; j < kValues; j += 4) {
          const float4 a = *reinterpret_cast<const float4*>(x + (first_x + t) * ldx + i + j);
          sum[t] += v[j] * a.x + v[j + 1] * a.y + v[j + 2] * a.z + v[j + 3] * a.w;
        }
      }
    }
  }

  __device__ void finish_narrow(const float* x, int64_t ldx, int first_x, int n_x, float (&sum)[T]) {
    for (int i = lane_; i < cols_; i += lanes_) {
      float v = float_value<F>(codes_, i);
      if constexpr (F == Format::kF8) {
        v *= scales_[i / scale_cols_];
      }
#pragma unroll
      for (int t = 0; t < T; ++t) {
        if (first_x + t < n_x) {
          sum[t] += v * x[(first_x + t) * ldx + i];
        }
      }
    }
  }

  const uint8_t* codes_;
  const float* scales_ = nullptr;
  int scale_cols_ = 1;
  int cols_;
  int lane_;
  int lanes_;
  bool wide_;
  uint4 loaded_[kDepth];
};

template <Format F, int T>
__device__ inline void dot_float_row(const DeviceWeight& w, int slice, int row, const float* x, int64_t ldx,
                                     int first_x, int n_x, float (&sum)[T]) {
  FloatDots<F, T> dots(w, slice, row, threadIdx.x % kWarp, kWarp);
  dots.start();
  dots.finish(x, ldx, first_x, n_x, sum);
}

}  // namespace fathom::cuda
