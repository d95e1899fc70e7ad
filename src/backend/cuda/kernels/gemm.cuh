// Matrix products on tensor cores: y[T, N] = x[T, K] w[N, K]^T, bf16 in, float32 sums. Weights stay packed in memory;
// each block decodes its tile into shared memory once for all of its rows.
#pragma once

#include "backend/cuda/kernels/decode.cuh"
#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/mma.cuh"
#include "backend/cuda/kernels/params.h"
#include "backend/cuda/kernels/swiglu.cuh"

namespace fathom::cuda {

constexpr int kTileN = 128;
constexpr int kTileK = 64;
constexpr int kTileStride = kTileK + 8;  // bf16 values: rows start four banks apart
constexpr int kGemmThreads = 256;

// Byte i of a word of signed codes as a float, without a conversion instruction.
template <int I>
__device__ inline float code_value(uint32_t offset_codes) {
  return __uint_as_float(permute_bytes(offset_codes, 0x4B000000U, 0x7440U | I)) - 8388736.0F;
}

// 16 codes as bf16 values: scale * code - minimum.
template <bool kHasMinimum>
__device__ inline void put_segment(const uint32_t* q, float scale, float minimum, uint16_t* to) {
  uint32_t out[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t u = q[i] ^ 0x80808080U;
    const float base = kHasMinimum ? -minimum : 0.0F;
    out[2 * i] = pack_bf16(fmaf(code_value<0>(u), scale, base), fmaf(code_value<1>(u), scale, base));
    out[2 * i + 1] = pack_bf16(fmaf(code_value<2>(u), scale, base), fmaf(code_value<3>(u), scale, base));
  }
  reinterpret_cast<uint4*>(to)[0] = make_uint4(out[0], out[1], out[2], out[3]);
  reinterpret_cast<uint4*>(to)[1] = make_uint4(out[4], out[5], out[6], out[7]);
}

// What one thread holds of a weight tile: 32 of the 64 columns of one row, as loaded.
template <Format F, bool kInteger = has_integer_codes(F)>
struct TilePart {
  static constexpr int kSegments = Chunk<F>::kSegments;
  static constexpr int kChunks = kSegments == 1 ? 2 : 1;
  Chunk<F> chunks[kChunks];

  // First column of the tile's 16-column piece i.
  __device__ static int column(int tile, int i) {
    return 16 * Chunk<F>::piece(tile * (4 / kSegments) + i / kSegments, i % kSegments);
  }
  __device__ void load(const DeviceWeight&, const WeightRow& row, int, int tile, int half) {
    if constexpr (kSegments == 1) {
      chunks[0] = Chunk<F>::load(row, 4 * tile + 2 * half);
      chunks[1] = Chunk<F>::load(row, 4 * tile + 2 * half + 1);
    } else {
      chunks[0] = Chunk<F>::load(row, kSegments == 2 ? 2 * tile + half : tile);
    }
  }
  __device__ void store(const uint64_t* grid, int half, uint16_t* to) const {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      uint32_t q[4 * kSegments];
      float scale[kSegments];
      float minimum[kSegments] = {};
      chunks[k].decode(grid, q, scale, minimum);
      if constexpr (kSegments == 4) {
        if (half == 0) {
          put_segment<Chunk<F>::kHasMinimum>(q, scale[0], minimum[0], to);
          put_segment<Chunk<F>::kHasMinimum>(q + 4, scale[1], minimum[1], to + 16);
        } else {
          put_segment<Chunk<F>::kHasMinimum>(q + 8, scale[2], minimum[2], to);
          put_segment<Chunk<F>::kHasMinimum>(q + 12, scale[3], minimum[3], to + 16);
        }
      } else {
#pragma unroll
        for (int s = 0; s < kSegments; ++s) {
          put_segment<Chunk<F>::kHasMinimum>(q + 4 * s, scale[s], minimum[s], to + 16 * (k + s));
        }
      }
    }
  }
};

template <Format F>
struct TilePart<F, false> {
  static constexpr int kWords = F == Format::kF8 ? 2 : 4;
  uint4 words[kWords];
  float scale;

  __device__ static int column(int tile, int i) { return tile * kTileK + 16 * i; }
  __device__ void load(const DeviceWeight& w, const WeightRow& row, int row_index, int tile, int half) {
    const int first = tile * kTileK + 32 * half;
    const uint8_t* from = row.codes + first * (F == Format::kF8 ? 1 : 2);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = load_stream(from + 16 * i);
    }
    scale = 1.0F;
    if constexpr (F == Format::kF8) {
      const int stride = ceil_div(w.cols, w.scale_cols);
      scale = reinterpret_cast<const float*>(row.scales)[row_index / w.scale_rows * stride + first / w.scale_cols];
    }
  }
  __device__ void store(const uint64_t*, int, uint16_t* to) const {
    auto* out = reinterpret_cast<uint4*>(to);
    if constexpr (F == Format::kBF16) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        out[i] = words[i];
      }
    } else {
      constexpr int kValues = F == Format::kF8 ? 16 : 8;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&words[i]);
        uint32_t pairs[kValues / 2];
#pragma unroll
        for (int j = 0; j < kValues / 2; ++j) {
          pairs[j] = pack_bf16(float_value<F>(bytes, 2 * j) * scale, float_value<F>(bytes, 2 * j + 1) * scale);
        }
#pragma unroll
        for (int j = 0; j < kValues / 8; ++j) {
          out[i * (kValues / 8) + j] = make_uint4(pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]);
        }
      }
    }
  }
};

// The row of a slice; scales of F8 start at the slice.
template <Format F>
__device__ WeightRow tile_row(const DeviceWeight& w, int slice, int row) {
  WeightRow r = weight_row(w, F, slice, row);
  if constexpr (F == Format::kF8) {
    r.scales = w.scales + static_cast<size_t>(slice) * w.scales_stride;
  }
  return r;
}

// kTileM rows of x times kTileN rows of the weight. With kGateUp every 16 tile rows are 8 of the gate and 8 of up, so
// that one thread ends up with both of a hidden value.
template <Format F, int kTileM, bool kGateUp>
__global__ void __launch_bounds__(kGemmThreads) gemm_kernel(const __grid_constant__ GemmParams p) {
  extern __shared__ uint4 shared_bytes[];
  auto* x_tiles = reinterpret_cast<uint16_t*>(shared_bytes);                  // [2][kTileM][kTileStride]
  uint16_t* w_tiles = x_tiles + 2 * kTileM * kTileStride;                     // [2][kTileN][kTileStride]
  auto* row_of = reinterpret_cast<int*>(w_tiles + 2 * kTileN * kTileStride);  // [kTileM] of y, -1: none
  const uint64_t* grid = stage_grid<F>(row_of + kTileM, p.w.grid);
  wait_for_predecessor();

  RowTile tile{0, static_cast<int>(blockIdx.y) * kTileM, 0, 0};
  if (p.tiles != nullptr) {
    if (static_cast<int>(blockIdx.y) >= *p.n_tiles) {
      return;
    }
    tile = p.tiles[blockIdx.y];
  } else {
    tile.n = min(kTileM, p.rows - tile.first);
  }
  for (int i = threadIdx.x; i < kTileM; i += kGemmThreads) {
    row_of[i] = i >= tile.n ? -1 : p.row_list != nullptr ? p.row_list[tile.first + i] : tile.first + i;
  }
  __syncthreads();

  // This thread's row and half of the weight tile.
  const int w_row = threadIdx.x % kTileN;
  const int half = threadIdx.x / kTileN;
  const int first_row = static_cast<int>(blockIdx.x) * (kGateUp ? kTileN / 2 : kTileN);
  const bool is_up = kGateUp && w_row / 8 % 2 == 1;
  const int wanted = first_row + (kGateUp ? w_row / 16 * 8 + w_row % 8 : w_row);
  const DeviceWeight& w = is_up ? p.up : p.w;
  const int row_index = min(wanted, p.w.rows - 1);
  const WeightRow row = tile_row<F>(w, tile.slice, row_index);
  const int column_offset = p.group_rows > 0 ? first_row / p.group_rows * p.w.cols : 0;

  const auto copy_x = [&](int k, int buffer) {
    constexpr int kPieces = kTileM * 8;  // of 8 values
    uint16_t* to = x_tiles + buffer * kTileM * kTileStride;
#pragma unroll
    for (int i = threadIdx.x; i < kPieces; i += kGemmThreads) {
      const int r = i / 8;
      const int part = i % 8;
      const int from = max(row_of[r], 0) / p.rows_per_x;
      const uint16_t* source = p.x + from * p.ldx + column_offset + TilePart<F>::column(k, part / 2) + part % 2 * 8;
      copy_16_async(to + r * kTileStride + part * 8, source, row_of[r] >= 0);
    }
    commit_copies();
  };

  constexpr int kWarpsM = kTileM >= 64 ? 2 : 1;
  constexpr int kWarpsN = 8 / kWarpsM;
  constexpr int kFragmentsM = kTileM / kWarpsM / 16;
  constexpr int kFragmentsN = kTileN / kWarpsN / 8;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int warp_m = warp / kWarpsN * (kTileM / kWarpsM);
  const int warp_n = warp % kWarpsN * (kTileN / kWarpsN);
  float sum[kFragmentsM][kFragmentsN][4] = {};

  const int n_tiles = p.w.cols / kTileK;
  TilePart<F> part;
  part.load(w, row, row_index, 0, half);
  copy_x(0, 0);
  for (int k = 0; k < n_tiles; ++k) {
    const int buffer = k % 2;
    part.store(grid, half, w_tiles + (buffer * kTileN + w_row) * kTileStride + 32 * half);
    if (k + 1 < n_tiles) {
      part.load(w, row, row_index, k + 1, half);
    }
    wait_copies<0>();
    __syncthreads();
    if (k + 1 < n_tiles) {
      copy_x(k + 1, buffer ^ 1);
    }
    const uint16_t* xs = x_tiles + (buffer * kTileM + warp_m + lane % 16) * kTileStride + lane / 16 * 8;
    const uint16_t* ws =
        w_tiles + (buffer * kTileN + warp_n + lane % 8 + lane / 16 * 8) * kTileStride + lane / 8 % 2 * 8;
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      uint32_t a[kFragmentsM][4];
#pragma unroll
      for (int m = 0; m < kFragmentsM; ++m) {
        load_matrices(a[m], xs + m * 16 * kTileStride + kk);
      }
#pragma unroll
      for (int n = 0; n < kFragmentsN; n += 2) {
        uint32_t b[4];
        load_matrices(b, ws + n * 8 * kTileStride + kk);
#pragma unroll
        for (int m = 0; m < kFragmentsM; ++m) {
          multiply_add(sum[m][n], a[m], b[0], b[1]);
          multiply_add(sum[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }
  let_successor_start();

#pragma unroll
  for (int m = 0; m < kFragmentsM; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int out = row_of[warp_m + m * 16 + h * 8 + lane / 4];
      if (out < 0) {
        continue;
      }
      if constexpr (kGateUp) {
        const float weight = p.weights != nullptr ? p.weights[out] : 1.0F;
#pragma unroll
        for (int n = 0; n < kFragmentsN; n += 2) {
          const int column = first_row + (warp_n + n * 8) / 2 + lane % 4 * 2;
          if (column < p.w.rows) {
            const float v0 = weight * swiglu(sum[m][n][2 * h], sum[m][n + 1][2 * h], p.limit);
            const float v1 = weight * swiglu(sum[m][n][2 * h + 1], sum[m][n + 1][2 * h + 1], p.limit);
            *reinterpret_cast<uint32_t*>(p.y16 + out * p.ldy16 + column) = pack_bf16(v0, v1);
          }
        }
      } else {
#pragma unroll
        for (int n = 0; n < kFragmentsN; ++n) {
          const int column = first_row + warp_n + n * 8 + lane % 4 * 2;
          float* y = p.y.data + out * p.y.ld + column;
          if (column < p.w.rows) {
            y[0] = sum[m][n][2 * h];
          }
          if (column + 1 < p.w.rows) {
            y[1] = sum[m][n][2 * h + 1];
          }
        }
      }
    }
  }
}

template <Format F, int kTileM, bool kGateUp>
void launch_gemm(const Launch& launch, const GemmParams& p) {
  constexpr size_t kBytes =
      2 * (kTileM + kTileN) * kTileStride * sizeof(uint16_t) + kTileM * sizeof(int) + grid_bytes<F>();
  const int tiles = p.tiles != nullptr ? p.max_tiles : ceil_div(p.rows, kTileM);
  start(launch, gemm_kernel<F, kTileM, kGateUp>, dim3(ceil_div(p.w.rows, kGateUp ? kTileN / 2 : kTileN), tiles),
        kGemmThreads, kBytes, p);
}

template <int kTileM, bool kGateUp>
void launch_gemm(const Launch& launch, const GemmParams& p) {
  switch (p.w.format) {
#define FATHOM_CASE(F) \
  case F:              \
    return launch_gemm<F, kTileM, kGateUp>(launch, p)
    FATHOM_CASE(Format::kF16);
    FATHOM_CASE(Format::kBF16);
    FATHOM_CASE(Format::kF8);
    FATHOM_CASE(Format::kQ8_0);
    FATHOM_CASE(Format::kMXFP4);
    FATHOM_CASE(Format::kQ4_K);
    FATHOM_CASE(Format::kQ2_K);
    FATHOM_CASE(Format::kQ3_K);
    FATHOM_CASE(Format::kIQ2_XXS);
#undef FATHOM_CASE
    case Format::kF32:
      break;
  }
}

}  // namespace fathom::cuda
