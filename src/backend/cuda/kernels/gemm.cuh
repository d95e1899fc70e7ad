// Matrix products on tensor cores: y[T, N] = x[T, K] w[N, K]^T, bf16 in, float32 sums. Weights stay packed in memory;
// each block decodes its tile into shared memory once for all of its rows.
#pragma once

#include "backend/cuda/kernels/decode.cuh"
#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/mma.cuh"
#include "backend/cuda/kernels/params.h"
#include "backend/cuda/kernels/swiglu.cuh"
#include "backend/cuda/kernels/wgmma.cuh"

namespace fathom::cuda {

constexpr int kTileN = 128;
constexpr int kTileK = 64;
constexpr int kGemmThreads = 256;

// Byte i of a word of signed codes as a float, without a conversion instruction.
template <int I>
__device__ inline float code_value(uint32_t offset_codes) {
  return __uint_as_float(permute_bytes(offset_codes, 0x4B000000U, 0x7440U | I)) - 8388736.0F;
}

// 16 codes as bf16 values: scale * code - minimum.
template <bool kHasMinimum>
__device__ inline void put_segment(const uint32_t* q, float scale, float minimum, uint16_t* first, uint16_t* second) {
  uint32_t out[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t u = q[i] ^ 0x80808080U;
    const float base = kHasMinimum ? -minimum : 0.0F;
    out[2 * i] = pack_bf16(fmaf(code_value<0>(u), scale, base), fmaf(code_value<1>(u), scale, base));
    out[2 * i + 1] = pack_bf16(fmaf(code_value<2>(u), scale, base), fmaf(code_value<3>(u), scale, base));
  }
  *reinterpret_cast<uint4*>(first) = make_uint4(out[0], out[1], out[2], out[3]);
  *reinterpret_cast<uint4*>(second) = make_uint4(out[4], out[5], out[6], out[7]);
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
  // place(i): where the i-th eight of this thread's 32 columns go.
  template <class Place>
  __device__ void store(const uint64_t* grid, int half, Place place) const {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      uint32_t q[4 * kSegments];
      float scale[kSegments];
      float minimum[kSegments] = {};
      chunks[k].decode(grid, q, scale, minimum);
      if constexpr (kSegments == 4) {
        if (half == 0) {
          put_segment<Chunk<F>::kHasMinimum>(q, scale[0], minimum[0], place(0), place(1));
          put_segment<Chunk<F>::kHasMinimum>(q + 4, scale[1], minimum[1], place(2), place(3));
        } else {
          put_segment<Chunk<F>::kHasMinimum>(q + 8, scale[2], minimum[2], place(0), place(1));
          put_segment<Chunk<F>::kHasMinimum>(q + 12, scale[3], minimum[3], place(2), place(3));
        }
      } else {
#pragma unroll
        for (int s = 0; s < kSegments; ++s) {
          put_segment<Chunk<F>::kHasMinimum>(q + 4 * s, scale[s], minimum[s], place(2 * (k + s)),
                                             place(2 * (k + s) + 1));
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
      words[i] = load_codes(from + 16 * i);
    }
    scale = 1.0F;
    if constexpr (F == Format::kF8) {
      const int stride = ceil_div(w.cols, w.scale_cols);
      scale = reinterpret_cast<const float*>(row.scales)[row_index / w.scale_rows * stride + first / w.scale_cols];
    }
  }
  template <class Place>
  __device__ void store(const uint64_t*, int, Place place) const {
    const auto put = [&](int i, const uint4& v) { *reinterpret_cast<uint4*>(place(i)) = v; };
    if constexpr (F == Format::kBF16) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        put(i, words[i]);
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
          put(i * (kValues / 8) + j, make_uint4(pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]));
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

// The tiles in shared memory. Three of each: one is read, one is filled, one may still be read by slower warps.
template <int kTileM>
struct GemmTiles {
  static constexpr int kStages = 3;
  static constexpr int kWeightStages = 3;
  static constexpr int kStride = kTileK;
  static constexpr size_t kBytes =
      static_cast<size_t>(kStages * kTileM + kWeightStages * kTileN) * kStride * sizeof(uint16_t) +
      kTileM * sizeof(int);
  __device__ static int place(int row, int piece) { return swizzled(row, piece); }
};

// kTileM rows of x times kTileN rows of the weight. With kGateUp every 16 tile rows are 8 of the gate and 8 of up, so
// that one thread ends up with both of a hidden value.
template <Format F, int kTileM, bool kGateUp>
__global__ void __launch_bounds__(kGemmThreads, 2) gemm_kernel(const __grid_constant__ GemmParams p) {
  extern __shared__ __align__(1024) uint4 shared_bytes[];
  using Tiles = GemmTiles<kTileM>;
  auto* x_tiles = reinterpret_cast<uint16_t*>(shared_bytes);
  uint16_t* w_tiles = x_tiles + Tiles::kStages * kTileM * Tiles::kStride;
  auto* row_of = reinterpret_cast<int*>(w_tiles + Tiles::kWeightStages * kTileN * Tiles::kStride);  // of y, -1: none
  const uint64_t* grid = stage_grid<F>(row_of + kTileM, p.list.n > 0 ? p.list.tasks[0].w.grid : p.w.grid);
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

  // Several products of one input: which one this block belongs to.
  const DeviceWeight* main = &p.w;
  View<float> y_view = p.y;
  int n_block = static_cast<int>(blockIdx.x);
  if (!kGateUp && p.list.n > 0) {
    int task = 0;
    while (n_block >= p.list.first_tile[task + 1]) {
      ++task;
    }
    n_block -= p.list.first_tile[task];
    main = &p.list.tasks[task].w;
    y_view = p.list.tasks[task].y;
  }

  // This thread's row and half of the weight tile.
  const int w_row = threadIdx.x % kTileN;
  const int half = threadIdx.x / kTileN;
  const int first_row = n_block * (kGateUp ? kTileN / 2 : kTileN);
  const bool is_up = kGateUp && w_row / 8 % 2 == 1;
  const int wanted = first_row + (kGateUp ? w_row / 16 * 8 + w_row % 8 : w_row);
  const DeviceWeight& w = is_up ? p.up : *main;
  const int row_index = min(wanted, main->rows - 1);
  const WeightRow row = tile_row<F>(w, tile.slice, row_index);
  const int column_offset = p.group_rows > 0 ? first_row / p.group_rows * main->cols : 0;

  // This thread's pieces of eight values: always the same rows.
  constexpr int kPieces = kTileM * 8 / kGemmThreads;
  const int part8 = static_cast<int>(threadIdx.x) % 8;
  const uint16_t* x_rows[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int from = row_of[static_cast<int>(threadIdx.x) / 8 + i * (kGemmThreads / 8)];
    x_rows[i] = from < 0 ? nullptr : p.x + from / p.rows_per_x * p.ldx + column_offset + part8 % 2 * 8;
  }
  const auto copy_x = [&](int k) {
    const int column = TilePart<F>::column(k, part8 / 2);
    uint16_t* tile_at = x_tiles + k % Tiles::kStages * kTileM * Tiles::kStride;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int r = static_cast<int>(threadIdx.x) / 8 + i * (kGemmThreads / 8);
      copy_16_async(tile_at + Tiles::place(r, part8), x_rows[i] != nullptr ? x_rows[i] + column : p.x,
                    x_rows[i] != nullptr);
    }
  };
  const auto store_w = [&](const TilePart<F>& part, int k) {
    uint16_t* tile_at = w_tiles + k % Tiles::kWeightStages * kTileN * Tiles::kStride;
    part.store(grid, half, [&](int i) { return tile_at + Tiles::place(w_row, 4 * half + i); });
  };

  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int n_tiles = main->cols / kTileK;
  TilePart<F> part;
  part.load(w, row, row_index, 0, half);
  copy_x(0);
  commit_copies();
#if FATHOM_HAS_WGMMA
  // Two warpgroups, 64 rows of x each, or half of the columns each where there are only 64 rows. While the tensor cores
  // work on one tile, the threads decode the next.
  constexpr int kFragmentsM = 1;
  constexpr int kFragmentsN = kTileM == 128 ? 16 : 8;
  const int group = warp / 4;
  const int warp_m = (kTileM == 128 ? group * 64 : 0) + warp % 4 * 16;
  const int warp_n = kTileM == 128 ? 0 : group * 64;
  float sum[kFragmentsM][kFragmentsN][4] = {};
  for (int k = 0; k < n_tiles; ++k) {
    store_w(part, k);
    if (k + 1 < n_tiles) {
      part.load(w, row, row_index, k + 1, half);
    }
    wait_copies<0>();
    publish_to_tensor_cores();
    __syncthreads();
    if (k + 1 < n_tiles) {
      copy_x(k + 1);
    }
    commit_copies();
    const uint64_t a =
        tile_descriptor(x_tiles + (k % Tiles::kStages * kTileM + (kTileM == 128 ? group * 64 : 0)) * Tiles::kStride);
    const uint64_t b = tile_descriptor(w_tiles + (k % Tiles::kWeightStages * kTileN + warp_n) * Tiles::kStride);
    warpgroup_arrive();
#pragma unroll
    for (int kk = 0; kk < kTileK / 16; ++kk) {
      warpgroup_multiply(sum[0], a + 2 * kk, b + 2 * kk, 1);
    }
    warpgroup_commit();
    warpgroup_wait<1>();  // the tile before is done with: its buffers are filled again after the next barrier
  }
  warpgroup_wait<0>();
#else
  constexpr int kWarpsM = 2;
  constexpr int kWarpsN = 8 / kWarpsM;
  constexpr int kFragmentsM = kTileM / kWarpsM / 16;
  constexpr int kFragmentsN = kTileN / kWarpsN / 8;
  const int warp_m = warp / kWarpsN * (kTileM / kWarpsM);
  const int warp_n = warp % kWarpsN * (kTileN / kWarpsN);
  float sum[kFragmentsM][kFragmentsN][4] = {};
  for (int k = 0; k < n_tiles; ++k) {
    store_w(part, k);
    if (k + 1 < n_tiles) {
      part.load(w, row, row_index, k + 1, half);
    }
    wait_copies<0>();
    __syncthreads();
    if (k + 1 < n_tiles) {
      copy_x(k + 1);
    }
    commit_copies();
    const uint16_t* xs = x_tiles + k % Tiles::kStages * kTileM * Tiles::kStride;
    const uint16_t* ws = w_tiles + k % Tiles::kWeightStages * kTileN * Tiles::kStride;
#pragma unroll
    for (int kk = 0; kk < kTileK / 16; ++kk) {
      uint32_t a[kFragmentsM][4];
#pragma unroll
      for (int m = 0; m < kFragmentsM; ++m) {
        load_matrices(a[m], xs + Tiles::place(warp_m + m * 16 + lane % 16, 2 * kk + lane / 16));
      }
#pragma unroll
      for (int n = 0; n < kFragmentsN; n += 2) {
        uint32_t b[4];
        load_matrices(b, ws + Tiles::place(warp_n + n * 8 + lane % 8 + lane / 16 * 8, 2 * kk + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < kFragmentsM; ++m) {
          multiply_add(sum[m][n], a[m], b[0], b[1]);
          multiply_add(sum[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }
#endif
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
          if (column < main->rows) {
            const float v0 = weight * swiglu(sum[m][n][2 * h], sum[m][n + 1][2 * h], p.limit);
            const float v1 = weight * swiglu(sum[m][n][2 * h + 1], sum[m][n + 1][2 * h + 1], p.limit);
            *reinterpret_cast<uint32_t*>(p.y16 + out * p.ldy16 + column) = pack_bf16(v0, v1);
          }
        }
      } else {
#pragma unroll
        for (int n = 0; n < kFragmentsN; ++n) {
          const int column = first_row + warp_n + n * 8 + lane % 4 * 2;
          float* y = y_view.data + out * y_view.ld + column;
          if (column < main->rows) {
            y[0] = sum[m][n][2 * h];
          }
          if (column + 1 < main->rows) {
            y[1] = sum[m][n][2 * h + 1];
          }
        }
      }
    }
  }
}

template <Format F, int kTileM, bool kGateUp>
void launch_gemm(const Launch& launch, const GemmParams& p) {
  constexpr size_t kBytes = GemmTiles<kTileM>::kBytes + grid_bytes<F>();
  const int tiles = p.tiles != nullptr ? p.max_tiles : ceil_div(p.rows, kTileM);
  const int n_blocks = p.list.n > 0 ? p.list.first_tile[p.list.n] : ceil_div(p.w.rows, kGateUp ? kTileN / 2 : kTileN);
  start(launch, gemm_kernel<F, kTileM, kGateUp>, dim3(n_blocks, tiles), kGemmThreads, kBytes, p);
}

template <int kTileM, bool kGateUp>
void launch_gemm(const Launch& launch, const GemmParams& p) {
  switch (p.list.n > 0 ? p.list.tasks[0].w.format : p.w.format) {
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
