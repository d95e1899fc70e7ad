// Router, and the experts for few rows: every chosen expert is read once per row.
#include <type_traits>

#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"
#include "backend/cuda/kernels/route.cuh"
#include "backend/cuda/kernels/swiglu.cuh"

namespace fathom::cuda {
namespace {

constexpr int kGateRows = 32;  // hidden values of one block: one int8 block of the down product's input
constexpr int kDownRows = 8;
constexpr int kMostScored = 256;  // experts that one warp chooses from in registers
constexpr int kMaxUsed = 6;       // experts whose loads are in flight together

// The choice of one row, into the outputs of the step.
template <int kPerLane>
__device__ void route_row(const RouteParams& p, int row, float* scores) {
  choose_experts<kPerLane>(
      p, row, scores, [&](int e) { return __ldcg(p.logits.data + row * p.logits.ld + e); },
      [&](int rank, int id, float weight) {
        p.ids.data[row * p.ids.ld + rank] = id;
        p.weights.data[row * p.weights.ld + rank] = weight;
      });
}

template <int kPerLane>
__global__ void __launch_bounds__(kWarp) route_kernel(const __grid_constant__ RouteParams p) {
  extern __shared__ float scores[];
  wait_for_predecessor();
  let_successor_start();
  route_row<kPerLane>(p, blockIdx.x, scores);
}

constexpr int kScoreThreads = 128;

// One expert's score; the last of a row's `experts` blocks to arrive makes the choice.
template <Format F, int kThreads>
__device__ void score_block(const RouteParams& p, const DeviceWeight& gate, const View<const float>& x, int* arrived,
                            int expert, int experts) {
  __shared__ float scores[kMostScored];
  __shared__ float shared[32];
  __shared__ bool is_last;
  const int row = blockIdx.y;
  FloatDots<F, 1> dots(gate, 0, expert, threadIdx.x, kThreads);
  dots.start();
  wait_for_predecessor();
  let_successor_start();
  float sum[1] = {};
  dots.finish(x.data, x.ld, row, row + 1, sum);
  const float logit = block_sum(sum[0], shared);
  if (threadIdx.x == 0) {
    const_cast<float*>(p.logits.data)[row * p.logits.ld + expert] = logit;
    __threadfence();
    is_last = atomicAdd(arrived + row, 1) == experts - 1;
    if (is_last) {
      arrived[row] = 0;
      __threadfence();
    }
  }
  __syncthreads();
  if (is_last && threadIdx.x < kWarp) {
    route_row<kMostScored / kWarp>(p, row, scores);
  }
}

// blockIdx.x: expert; y: row.
template <Format F>
__global__ void __launch_bounds__(kScoreThreads)
    score_and_route_kernel(const __grid_constant__ RouteParams p, const __grid_constant__ DeviceWeight gate,
                           View<const float> x, int* arrived) {
  score_block<F, kScoreThreads>(p, gate, x, arrived, blockIdx.x, gridDim.x);
}

template <Format F>
__device__ void gate_up_block(const ExpertParams& p, const DeviceWeight& gate, const DeviceWeight& up, int slice,
                              int slot, int tile, float weight, float limit, const uint64_t* grid = nullptr) {
  extern __shared__ uint4 shared_bytes[];
  __shared__ float hidden[kGateRows];
  const int row = blockIdx.y;
  constexpr int kPerWarp = kGateRows / (kGemvThreads / kWarp);
  const int warp = threadIdx.x / kWarp;
  const int first_hidden = tile * kGateRows;
  const int local = warp * kPerWarp;
  const auto put = [&](int i, float gate_sum, float up_sum) {
    const float g = warp_sum(gate_sum);
    const float v = warp_sum(up_sum);
    if (threadIdx.x % kWarp == 0) {
      hidden[local + i] = first_hidden + local + i < gate.rows ? weight * swiglu(g, v, limit) : 0.0F;
    }
  };
  if constexpr (has_integer_codes(F)) {
    StagedRows<F, 1> x(shared_bytes, gate.cols);
    if (grid == nullptr) {
      grid = spread_grid<F>(x.end(), gate.grid);
    }
    // Pairs of rows: gate and up of one hidden value.
    auto dots = make_row_dots<F, 1, 2, kPerWarp>(
        [&](int i) {
          return weight_row(i % 2 == 0 ? gate : up, F, slice, min(first_hidden + local + i / 2, gate.rows - 1));
        },
        x.chunks());
    dots.start();
    wait_for_predecessor();  // of no effect where the caller had to wait before
    let_successor_start();
    x.stage(p.xq, row, 1, 0);
    __syncthreads();
    dots.finish(x, grid, [&](int pass, float(&sum)[2][1]) { put(pass, sum[0][0], sum[1][0]); });
  } else {
    for (int i = 0; i < kPerWarp; ++i) {
      float sum[2][1] = {};
      const int out = min(first_hidden + local + i, gate.rows - 1);
      dot_float_row<F, 1>(gate, slice, out, p.x.data, p.x.ld, row, row + 1, sum[0]);
      dot_float_row<F, 1>(up, slice, out, p.x.data, p.x.ld, row, row + 1, sum[1]);
      put(i, sum[0][0], sum[1][0]);
    }
  }
  __syncthreads();
  if (warp == 0) {
    const int lane = threadIdx.x;
    const int out = row * (p.used + 1) + slot;
    if (first_hidden + lane < gate.rows) {
      p.hidden.data[out * p.hidden.ld + first_hidden + lane] = hidden[lane];
    }
    if (p.hidden_q.codes != nullptr) {
      store_quantized(p.hidden_q, out, tile, hidden[lane]);
    }
  }
}

// blockIdx.x: 32 hidden values; y: row; z: slot, the last one is the shared expert.
template <Format FRouted, Format FShared>
__global__ void __launch_bounds__(kGemvThreads) gate_up_kernel(const __grid_constant__ ExpertParams p, int first_slot) {
  wait_for_predecessor();
  let_successor_start();
  // The shared expert has the longest rows: its blocks come first.
  const int slot = first_slot + static_cast<int>(gridDim.z - 1 - blockIdx.z);
  const int row = blockIdx.y;
  if (slot < p.used) {
    if (static_cast<int>(blockIdx.x) * kGateRows < p.gate.rows) {
      gate_up_block<FRouted>(p, p.gate, p.up, p.ids.data[row * p.ids.ld + slot], slot, blockIdx.x,
                             p.weights.data[row * p.weights.ld + slot], p.limit);
    }
  } else if (static_cast<int>(blockIdx.x) * kGateRows < p.shared_gate.rows) {
    gate_up_block<FShared>(p, p.shared_gate, p.shared_up, 0, slot, blockIdx.x, 1.0F, p.shared_limit);
  }
}

template <Format F>
constexpr size_t down_bytes(int cols, int slots) {
  if constexpr (has_integer_codes(F)) {
    return static_cast<size_t>(slots) * StagedRows<F, 1>::bytes(cols) + spread_grid_bytes<F>();
  }
  return 0;
}

// This lane's share of one output value over the chosen experts. The first chunk of each is loaded before the
// activations are there.
template <Format F>
class DownDots {
 public:
  __device__ void start(const DeviceWeight& w, const int* slices, int slots, int out) {
    if constexpr (has_integer_codes(F)) {
      load(w, slices, 0, slots, out, threadIdx.x % kWarp);
    }
  }

  __device__ float finish(const ExpertParams& p, const int* slices, int out, uint8_t* shared, const uint64_t* grid) {
    float sum[1] = {};
    if constexpr (has_integer_codes(F)) {
      const size_t stride = StagedRows<F, 1>::bytes(p.down.cols);
      const int chunks = p.down.cols / (16 * Chunk<F>::kSegments);
      for (int first = 0; first < p.used; first += kMaxUsed) {
        for (int c = threadIdx.x % kWarp; c < chunks; c += kWarp) {
          if (first > 0 || c >= kWarp) {
            load(p.down, slices, first, p.used, out, c);
          }
#pragma unroll
          for (int i = 0; i < kMaxUsed; ++i) {
            if (first + i < p.used) {
              const StagedRows<F, 1> x(shared + (first + i) * stride, p.down.cols);
              dot_chunk<F, 1>(loaded_[i], x, c, grid, sum);
            }
          }
        }
      }
    } else {
      for (int i = 0; i < p.used; ++i) {
        const int in = blockIdx.y * (p.used + 1) + i;
        dot_float_row<F, 1>(p.down, slices[i], out, p.hidden.data, p.hidden.ld, in, in + 1, sum);
      }
    }
    return sum[0];
  }

 private:
  __device__ void load(const DeviceWeight& w, const int* slices, int first, int slots, int out, int c) {
    if (c >= w.cols / (16 * Chunk<F>::kSegments)) {
      return;
    }
#pragma unroll
    for (int i = 0; i < kMaxUsed; ++i) {
      if (first + i < slots) {
        loaded_[i] = Chunk<F>::load(weight_row(w, F, slices[first + i], out), c);
      }
    }
  }

  struct None {};
  std::conditional_t<has_integer_codes(F), Chunk<has_integer_codes(F) ? F : Format::kQ8_0>, None> loaded_[kMaxUsed];
};

template <Format F>
__device__ const uint64_t* stage_hidden(const ExpertParams& p, const DeviceWeight& w, int first_slot, int slots,
                                        uint8_t* shared) {
  if constexpr (has_integer_codes(F)) {
    const size_t stride = StagedRows<F, 1>::bytes(w.cols);
    for (int i = 0; i < slots; ++i) {
      StagedRows<F, 1> x(shared + i * stride, w.cols);
      x.stage(p.hidden_q, blockIdx.y * (p.used + 1) + first_slot + i, 1, 0);
    }
    return spread_grid<F>(shared + slots * stride, w.grid);
  }
  return nullptr;
}

// blockIdx.x: kDownRows outputs; y: row. Everything a warp needs of the weights is on its way before it waits.
template <Format FRouted, Format FShared, bool kRouted, bool kShared>
__global__ void __launch_bounds__(kGemvThreads) down_kernel(const __grid_constant__ ExpertParams p) {
  extern __shared__ uint4 shared_bytes[];
  __shared__ int slices[64];
  auto* routed_bytes = reinterpret_cast<uint8_t*>(shared_bytes);
  uint8_t* shared_expert_bytes = routed_bytes + (kRouted ? down_bytes<FRouted>(p.down.cols, p.used) : 0);
  const uint64_t* grid = nullptr;
  const uint64_t* shared_grid = nullptr;
  constexpr int kPerWarp = kDownRows / (kGemvThreads / kWarp);
  const int first = blockIdx.x * kDownRows + static_cast<int>(threadIdx.x / kWarp) * kPerWarp;
  const auto row_of = [&](int r) { return min(first + r, p.down.rows - 1); };
  DownDots<FRouted> routed[kPerWarp];
  if constexpr (kRouted) {
    // The predecessor waited for the router before it let this kernel start, so the choice is there already.
    if (threadIdx.x < p.used) {
      slices[threadIdx.x] = p.ids.data[blockIdx.y * p.ids.ld + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kPerWarp; ++r) {
      routed[r].start(p.down, slices, p.used, row_of(r));
    }
  }
  float sum[kPerWarp] = {};
  const auto run_shared = [&](auto&& between) {
    if constexpr (kShared && has_integer_codes(FShared)) {
      const StagedRows<FShared, 1> x(shared_expert_bytes, p.shared_down.cols);
      auto dots = make_row_dots<FShared, 1, kPerWarp, 1>(
          [&](int r) { return weight_row(p.shared_down, FShared, 0, row_of(r)); }, x.chunks());
      dots.start();
      between();
      dots.finish(x, shared_grid, [&](int, float(&part)[kPerWarp][1]) {
#pragma unroll
        for (int r = 0; r < kPerWarp; ++r) {
          sum[r] = part[r][0];
        }
      });
    } else {
      between();
    }
  };
  run_shared([&] {
    wait_for_predecessor();
    let_successor_start();
    if constexpr (kRouted) {
      grid = stage_hidden<FRouted>(p, p.down, 0, p.used, routed_bytes);
    }
    if constexpr (kShared) {
      shared_grid = stage_hidden<FShared>(p, p.shared_down, p.used, 1, shared_expert_bytes);
    }
    __syncthreads();
  });
  if constexpr (kShared && !has_integer_codes(FShared)) {
    const int in = blockIdx.y * (p.used + 1) + p.used;
#pragma unroll
    for (int r = 0; r < kPerWarp; ++r) {
      float part[1] = {};
      dot_float_row<FShared, 1>(p.shared_down, 0, row_of(r), p.hidden.data, p.hidden.ld, in, in + 1, part);
      sum[r] = part[0];
    }
  }
#pragma unroll
  for (int r = 0; r < kPerWarp; ++r) {
    if constexpr (kRouted) {
      sum[r] += routed[r].finish(p, slices, row_of(r), routed_bytes, grid);
    }
    const float total = warp_sum(sum[r]);
    if (threadIdx.x % kWarp == 0 && first + r < p.down.rows) {
      float* y = p.y.data + blockIdx.y * p.y.ld + first + r;
      *y = kRouted && !p.adds ? total : *y + total;
    }
  }
}

// The shared expert needs no router: its first half runs beside the router, its second beside the chosen experts'
// first.
constexpr Format kSharedFormat = Format::kQ8_0;

// blockIdx.x: 32 hidden values of the shared expert, then an expert's score each; y: row.
template <Format F>
__global__ void __launch_bounds__(kGemvThreads)
    route_and_shared_kernel(const __grid_constant__ RouteParams route, const __grid_constant__ DeviceWeight gate,
                            View<const float> x, int* arrived, const __grid_constant__ ExpertParams p) {
  const int shared_tiles = ceil_div(p.shared_gate.rows, kGateRows);
  const int block = static_cast<int>(blockIdx.x) - shared_tiles;
  if (block < 0) {
    gate_up_block<kSharedFormat>(p, p.shared_gate, p.shared_up, 0, p.used, blockIdx.x, 1.0F, p.shared_limit);
  } else {
    score_block<F, kGemvThreads>(route, gate, x, arrived, block, static_cast<int>(gridDim.x) - shared_tiles);
  }
}

// y = the shared expert's output, 16 values a block.
__device__ void shared_down_block(const ExpertParams& p, int tile) {
  extern __shared__ uint4 shared_bytes[];
  constexpr int kPerWarp = 2;
  const int first = (tile * (kGemvThreads / kWarp) + static_cast<int>(threadIdx.x / kWarp)) * kPerWarp;
  StagedRows<kSharedFormat, 1> x(shared_bytes, p.shared_down.cols);
  auto dots = make_row_dots<kSharedFormat, 1, kPerWarp, 1>(
      [&](int r) { return weight_row(p.shared_down, kSharedFormat, 0, min(first + r, p.shared_down.rows - 1)); },
      x.chunks());
  dots.start();
  wait_for_predecessor();
  let_successor_start();
  x.stage(p.hidden_q, blockIdx.y * (p.used + 1) + p.used, 1, 0);
  __syncthreads();
  dots.finish(x, nullptr, [&](int, float(&sum)[kPerWarp][1]) {
#pragma unroll
    for (int r = 0; r < kPerWarp; ++r) {
      const float v = warp_sum(sum[r][0]);
      if (threadIdx.x % kWarp == 0 && first + r < p.shared_down.rows) {
        p.y.data[blockIdx.y * p.y.ld + first + r] = v;
      }
    }
  });
}

// blockIdx.x: 32 hidden values of a chosen expert, then outputs of the shared one; y: row.
template <Format F>
__global__ void __launch_bounds__(kGemvThreads) chosen_and_shared_kernel(const __grid_constant__ ExpertParams p) {
  const int tiles = ceil_div(p.gate.rows, kGateRows);
  const int slot = static_cast<int>(blockIdx.x) / tiles;
  if (slot >= p.used) {
    shared_down_block(p, static_cast<int>(blockIdx.x) - p.used * tiles);
    return;
  }
  extern __shared__ uint4 shared_bytes[];
  const uint64_t* grid = spread_grid<F>(StagedRows<F, 1>(shared_bytes, p.gate.cols).end(), p.gate.grid);
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.y;
  gate_up_block<F>(p, p.gate, p.up, p.ids.data[row * p.ids.ld + slot], slot, static_cast<int>(blockIdx.x) % tiles,
                   p.weights.data[row * p.weights.ld + slot], p.limit, grid);
}

// A tile of up to T pairs of one expert.
template <Format F, int T>
__device__ void gate_up_tile(const ExpertParams& p, const RowTile& tile, const int32_t* pairs) {
  extern __shared__ uint4 shared_bytes[];
  __shared__ float hidden[kExpertTile][kGateRows];
  constexpr int kPerWarp = kGateRows / (kGemvThreads / kWarp);
  const int warp = threadIdx.x / kWarp;
  const int local = warp * kPerWarp;
  StagedRows<F, T> x(shared_bytes, p.gate.cols);
  const uint64_t* grid = spread_grid<F>(x.end(), p.gate.grid);
  x.gather(
      p.xq, [&](int t) { return pairs[t] / p.used; }, tile.n, 0);
  __syncthreads();
  for (int block = blockIdx.x; block < p.gate.rows / kGateRows; block += gridDim.x) {
    const int first = block * kGateRows + local;
    auto dots = make_row_dots<F, T, 2, kPerWarp>(
        [&](int i) { return weight_row(i % 2 == 0 ? p.gate : p.up, F, tile.slice, first + i / 2); }, x.chunks());
    dots.start();
    dots.finish(x, grid, [&](int pass, float(&sum)[2][T]) {
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const float g = warp_sum(sum[0][t]);
        const float v = warp_sum(sum[1][t]);
        if (threadIdx.x % kWarp == 0) {
          hidden[t][local + pass] = swiglu(g, v, p.limit);
        }
      }
    });
    __syncthreads();
    if (warp < tile.n) {
      const int pair = pairs[warp];
      const float weight = p.weights.data[pair / p.used * p.weights.ld + pair % p.used];
      store_quantized(p.hidden_q, pair, block, weight * hidden[warp][threadIdx.x % kWarp]);
    }
    __syncthreads();
  }
}

// blockIdx.x: every so many 32 hidden values; y: tile.
template <Format F>
__global__ void __launch_bounds__(kGemvThreads)
    gate_up_tile_kernel(const __grid_constant__ ExpertParams p, const RowTile* tiles, const int32_t* n_tiles,
                        const int32_t* pairs) {
  wait_for_predecessor();
  let_successor_start();
  if (static_cast<int>(blockIdx.y) >= *n_tiles) {
    return;
  }
  const RowTile tile = tiles[blockIdx.y];
  if (tile.n == 1) {
    gate_up_tile<F, 1>(p, tile, pairs + tile.first);
  } else if (tile.n == 2) {
    gate_up_tile<F, 2>(p, tile, pairs + tile.first);
  } else {
    gate_up_tile<F, kExpertTile>(p, tile, pairs + tile.first);
  }
}

constexpr int kDownPerWarp = 8;  // outputs of a warp
constexpr int kDownTileRows = kGemvThreads / kWarp * kDownPerWarp;

template <Format F, int T>
__device__ void down_tile(const ExpertParams& p, const RowTile& tile, const int32_t* pairs, int block, float* out) {
  extern __shared__ uint4 shared_bytes[];
  const int first = block * kDownTileRows + static_cast<int>(threadIdx.x / kWarp) * kDownPerWarp;
  StagedRows<F, T> x(shared_bytes, p.down.cols);
  const uint64_t* grid = spread_grid<F>(x.end(), p.down.grid);
  auto dots = make_row_dots<F, T, 2, kDownPerWarp / 2>(
      [&](int i) { return weight_row(p.down, F, tile.slice, min(first + i, p.down.rows - 1)); }, x.chunks());
  dots.start();
  x.gather(
      p.hidden_q, [&](int t) { return pairs[t]; }, tile.n, 0);
  __syncthreads();
  dots.finish(x, grid, [&](int pass, float(&sum)[2][T]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const float v = warp_sum(sum[r][t]);
        const int row = first + 2 * pass + r;
        if (threadIdx.x % kWarp == 0 && t < tile.n && row < p.down.rows) {
          out[static_cast<int64_t>(pairs[t]) * p.down.rows + row] = v;
        }
      }
    }
  });
}

template <Format F>
__global__ void __launch_bounds__(kGemvThreads)
    down_tile_kernel(const __grid_constant__ ExpertParams p, const RowTile* tiles, const int32_t* n_tiles,
                     const int32_t* pairs, float* out) {
  wait_for_predecessor();
  let_successor_start();
  if (static_cast<int>(blockIdx.y) >= *n_tiles) {
    return;
  }
  const RowTile tile = tiles[blockIdx.y];
  if (tile.n == 1) {
    down_tile<F, 1>(p, tile, pairs + tile.first, blockIdx.x, out);
  } else if (tile.n == 2) {
    down_tile<F, 2>(p, tile, pairs + tile.first, blockIdx.x, out);
  } else {
    down_tile<F, kExpertTile>(p, tile, pairs + tile.first, blockIdx.x, out);
  }
}

// One warp for 32 values.
__global__ void __launch_bounds__(kGemvThreads)
    swiglu_kernel(View<const float> gate, View<const float> up, float limit, QuantRows q) {
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.y;
  const int i = static_cast<int>(blockIdx.x) * kGemvThreads + static_cast<int>(threadIdx.x);
  if (i < q.cols) {  // whole warps
    store_quantized(q, row, i / kWarp, swiglu(gate.data[row * gate.ld + i], up.data[row * up.ld + i], limit));
  }
}

template <Format F>
size_t gate_bytes(int cols) {
  if constexpr (has_integer_codes(F)) {
    return StagedRows<F, 1>::bytes(cols) + spread_grid_bytes<F>();
  }
  return 0;
}

template <Format FRouted, Format FShared>
void launch_gate_up(const Launch& launch, const ExpertParams& p, int first_slot, int slots) {
  const int routed_rows = first_slot < p.used ? p.gate.rows : 0;
  const int shared_rows = first_slot + slots > p.used ? p.shared_gate.rows : 0;
  const size_t routed = routed_rows > 0 ? gate_bytes<FRouted>(p.gate.cols) : 0;
  const size_t shared = shared_rows > 0 ? gate_bytes<FShared>(p.shared_gate.cols) : 0;
  start(launch, gate_up_kernel<FRouted, FShared>,
        dim3(ceil_div(routed_rows > shared_rows ? routed_rows : shared_rows, kGateRows), p.rows, slots), kGemvThreads,
        routed > shared ? routed : shared, p, first_slot);
}

template <Format FRouted, Format FShared, bool kRouted, bool kShared>
void launch_down(const Launch& launch, const ExpertParams& p) {
  const size_t bytes = (kRouted ? down_bytes<FRouted>(p.down.cols, p.used) : 0) +
                       (kShared ? down_bytes<FShared>(p.shared_down.cols, 1) : 0);
  start(launch, down_kernel<FRouted, FShared, kRouted, kShared>, dim3(ceil_div(p.down.rows, kDownRows), p.rows),
        kGemvThreads, bytes, p);
}

template <class Visit>
void with_format(Format format, const Visit& visit) {
  switch (format) {
#define FATHOM_CASE(F)                          \
  case F:                                       \
    visit(std::integral_constant<Format, F>{}); \
    break
    FATHOM_CASE(Format::kF32);
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
  }
}

// One launch for routed and shared experts where the shared one is Q8_0, the usual case; two launches otherwise.
[[nodiscard]] bool go_together(Format routed, Format shared) {
  return shared == Format::kQ8_0 && has_integer_codes(routed);
}

}  // namespace

void route_rows(const Launch& launch, const RouteParams& p) {
  const size_t bytes = static_cast<size_t>(p.experts) * sizeof(float);
  if (p.experts <= 256) {
    start(launch, route_kernel<8>, dim3(p.rows), kWarp, bytes, p);
  } else {
    start(launch, route_kernel<32>, dim3(p.rows), kWarp, bytes, p);
  }
}

bool can_score_and_route(const DeviceWeight& gate, int rows) {
  constexpr int kMostRows = 4;
  return rows <= kMostRows && gate.rows <= kMostScored &&
         (gate.format == Format::kF32 || gate.format == Format::kF16 || gate.format == Format::kBF16);
}

void score_and_route_rows(const Launch& launch, const RouteParams& p, const DeviceWeight& gate, View<const float> x,
                          int* arrived) {
  const dim3 grid(gate.rows, p.rows);
  constexpr size_t bytes = 0;
  switch (gate.format) {
    case Format::kF16:
      return start(launch, score_and_route_kernel<Format::kF16>, grid, kScoreThreads, bytes, p, gate, x, arrived);
    case Format::kBF16:
      return start(launch, score_and_route_kernel<Format::kBF16>, grid, kScoreThreads, bytes, p, gate, x, arrived);
    default:
      return start(launch, score_and_route_kernel<Format::kF32>, grid, kScoreThreads, bytes, p, gate, x, arrived);
  }
}

bool can_route_with_shared(const DeviceWeight& gate, const ExpertParams& p) {
  return can_score_and_route(gate, p.rows) && has_integer_codes(p.gate.format) && has_integer_codes(p.down.format) &&
         p.shared_gate.format == kSharedFormat && p.shared_down.format == kSharedFormat && p.hidden_q.codes != nullptr;
}

void route_with_experts(const Launch& launch, const RouteParams& route, const DeviceWeight& gate, ExpertParams p,
                        int* arrived) {
  const int shared_tiles = ceil_div(p.shared_gate.rows, kGateRows);
  const dim3 first(shared_tiles + gate.rows, p.rows);
  const size_t first_bytes = gate_bytes<kSharedFormat>(p.shared_gate.cols);
  const auto run = [&](auto* kernel) {
    start(launch, kernel, first, kGemvThreads, first_bytes, route, gate, p.x, arrived, p);
  };
  switch (gate.format) {
    case Format::kF16:
      run(route_and_shared_kernel<Format::kF16>);
      break;
    case Format::kBF16:
      run(route_and_shared_kernel<Format::kBF16>);
      break;
    default:
      run(route_and_shared_kernel<Format::kF32>);
      break;
  }
  with_format(p.gate.format, [&](auto format) {
    constexpr Format kFormat = decltype(format)::value;
    if constexpr (has_integer_codes(kFormat)) {
      const size_t chosen = gate_bytes<kFormat>(p.gate.cols);
      const size_t shared = gate_bytes<kSharedFormat>(p.shared_down.cols);
      const int tiles = p.used * ceil_div(p.gate.rows, kGateRows) + ceil_div(p.shared_down.rows, 16);
      start(launch, chosen_and_shared_kernel<kFormat>, dim3(tiles, p.rows), kGemvThreads,
            chosen > shared ? chosen : shared, p);
    }
  });
  p.adds = true;
  with_format(p.down.format, [&](auto format) {
    constexpr Format kFormat = decltype(format)::value;
    if constexpr (has_integer_codes(kFormat)) {
      launch_down<kFormat, kFormat, true, false>(launch, p);
    }
  });
}

bool can_group_few_rows(const ExpertParams& p) {
  return p.rows > 1 && has_integer_codes(p.gate.format) && has_integer_codes(p.down.format) &&
         p.gate.rows % kGateRows == 0 && p.shared_gate.format == kSharedFormat &&
         p.shared_down.format == kSharedFormat && p.shared_gate.rows % kMmaRows == 0 &&
         p.shared_down.rows % kMmaRows == 0;
}

void experts_grouped(const Launch& launch, const ExpertParams& p, const RowTile* tiles, const int32_t* n_tiles,
                     int max_tiles, const int32_t* pairs, float* out) {
  with_format(p.gate.format, [&](auto format) {
    constexpr Format kFormat = decltype(format)::value;
    if constexpr (has_integer_codes(kFormat)) {
      const size_t bytes = StagedRows<kFormat, kExpertTile>::bytes(p.gate.cols) + spread_grid_bytes<kFormat>();
      start(launch, gate_up_tile_kernel<kFormat>, dim3(p.gate.rows / kGateRows, max_tiles), kGemvThreads, bytes, p,
            tiles, n_tiles, pairs);
    }
  });
  with_format(p.down.format, [&](auto format) {
    constexpr Format kFormat = decltype(format)::value;
    if constexpr (has_integer_codes(kFormat)) {
      const size_t bytes = StagedRows<kFormat, kExpertTile>::bytes(p.down.cols) + spread_grid_bytes<kFormat>();
      start(launch, down_tile_kernel<kFormat>, dim3(ceil_div(p.down.rows, kDownTileRows), max_tiles), kGemvThreads,
            bytes, p, tiles, n_tiles, pairs, out);
    }
  });
}

void swiglu_rows(const Launch& launch, int rows, View<const float> gate, View<const float> up, float limit,
                 QuantRows q) {
  start(launch, swiglu_kernel, dim3(ceil_div(q.cols, kGemvThreads), rows), kGemvThreads, 0, gate, up, limit, q);
}

void experts_few_rows(const Launch& launch, const ExpertParams& p) {
  with_format(p.gate.format, [&](auto routed) {
    constexpr Format kRouted = decltype(routed)::value;
    if (go_together(p.gate.format, p.shared_gate.format)) {
      if constexpr (has_integer_codes(kRouted)) {
        launch_gate_up<kRouted, Format::kQ8_0>(launch, p, 0, p.used + 1);
      }
      return;
    }
    launch_gate_up<kRouted, kRouted>(launch, p, 0, p.used);
    with_format(p.shared_gate.format, [&](auto shared) {
      constexpr Format kShared = decltype(shared)::value;
      launch_gate_up<kShared, kShared>(launch, p, p.used, 1);
    });
  });
  with_format(p.down.format, [&](auto routed) {
    constexpr Format kRouted = decltype(routed)::value;
    if (go_together(p.down.format, p.shared_down.format)) {
      if constexpr (has_integer_codes(kRouted)) {
        launch_down<kRouted, Format::kQ8_0, true, true>(launch, p);
      }
      return;
    }
    launch_down<kRouted, kRouted, true, false>(launch, p);
    with_format(p.shared_down.format, [&](auto shared) {
      constexpr Format kShared = decltype(shared)::value;
      launch_down<kShared, kShared, false, true>(launch, p);
    });
  });
}

}  // namespace fathom::cuda
