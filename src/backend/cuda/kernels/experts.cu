// Router, and the experts for few rows: every chosen expert is read once per row.
#include <type_traits>

#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/params.h"
#include "backend/cuda/kernels/swiglu.cuh"

namespace fathom::cuda {
namespace {

constexpr int kGateRows = 32;  // hidden values of one block: one int8 block of the down product's input
constexpr int kDownRows = 16;
constexpr int kMaxUsed = 8;  // experts whose loads are in flight together

__device__ unsigned ordered(float v) {
  const unsigned bits = __float_as_uint(v);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// One warp a row; lane l holds experts l, l + 32, ... Scores, then the best `used` by repeated search: ties go to the
// lower number.
template <int kPerLane>
__global__ void __launch_bounds__(kWarp) route_kernel(const __grid_constant__ RouteParams p) {
  extern __shared__ float scores[];  // [experts]
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.x;
  const int lane = threadIdx.x;
  unsigned keys[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int e = lane + i * kWarp;
    keys[i] = 0;
    if (e < p.experts) {
      const float x = p.logits.data[row * p.logits.ld + e];
      const float score = sqrtf(x > 20.0F ? x : log1pf(expf(x)));
      scores[e] = score;
      keys[i] = p.bias != nullptr ? ordered(score + p.bias[e]) : 1;
    }
  }
  __syncwarp();
  int id = 0;  // of lane k < used: the k-th choice
  if (p.token_table != nullptr) {
    id = lane < p.used ? p.token_table[static_cast<int64_t>(p.tokens[row]) * p.used + lane] : 0;
  } else {
    for (int k = 0; k < p.used; ++k) {
      unsigned best = 0;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        best = max(best, keys[i]);
      }
      best = __reduce_max_sync(kFullMask, best);
      int candidate = p.experts;
#pragma unroll
      for (int i = kPerLane - 1; i >= 0; --i) {
        candidate = keys[i] == best && best != 0 ? lane + i * kWarp : candidate;
      }
      const int chosen = min(__reduce_min_sync(kFullMask, candidate), p.experts - 1);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        keys[i] = lane + i * kWarp == chosen ? 0 : keys[i];
      }
      id = lane == k ? chosen : id;
    }
  }
  // Ascending, the order in which experts are summed.
  int rank = 0;
  for (int k = 0; k < p.used; ++k) {
    const int other = __shfl_sync(kFullMask, id, k);
    rank += other < id || (other == id && k < lane) ? 1 : 0;
  }
  float sum = 0.0F;
  for (int r = 0; r < p.used; ++r) {
    const unsigned holder = __ballot_sync(kFullMask, lane < p.used && rank == r);
    sum += scores[__shfl_sync(kFullMask, id, __ffs(static_cast<int>(holder)) - 1)];
  }
  if (lane < p.used) {
    p.ids.data[row * p.ids.ld + rank] = id;
    p.weights.data[row * p.weights.ld + rank] = scores[id] / sum * p.scale;
  }
}

template <Format F>
__device__ void gate_up_block(const ExpertParams& p, const DeviceWeight& gate, const DeviceWeight& up, int slice,
                              int slot, float weight, float limit) {
  extern __shared__ uint4 shared_bytes[];
  __shared__ float hidden[kGateRows];
  const int row = blockIdx.y;
  constexpr int kPerWarp = kGateRows / (kGemvThreads / kWarp);
  const int warp = threadIdx.x / kWarp;
  const int first_hidden = blockIdx.x * kGateRows;
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
    const uint64_t* grid = stage_grid<F>(x.end(), gate.grid);
    // Pairs of rows: gate and up of one hidden value.
    auto dots = make_row_dots<F, 1, 2, kPerWarp>(
        [&](int i) {
          return weight_row(i % 2 == 0 ? gate : up, F, slice, min(first_hidden + local + i / 2, gate.rows - 1));
        },
        x.chunks());
    dots.start();
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
      store_quantized(p.hidden_q, out, blockIdx.x, hidden[lane]);
    }
  }
}

// blockIdx.x: 32 hidden values; y: row; z: slot, the last one is the shared expert.
template <Format FRouted, Format FShared>
__global__ void __launch_bounds__(kGemvThreads) gate_up_kernel(const __grid_constant__ ExpertParams p, int first_slot) {
  wait_for_predecessor();
  let_successor_start();
  const int slot = first_slot + blockIdx.z;
  const int row = blockIdx.y;
  if (slot < p.used) {
    if (static_cast<int>(blockIdx.x) * kGateRows < p.gate.rows) {
      gate_up_block<FRouted>(p, p.gate, p.up, p.ids.data[row * p.ids.ld + slot], slot,
                             p.weights.data[row * p.weights.ld + slot], p.limit);
    }
  } else if (static_cast<int>(blockIdx.x) * kGateRows < p.shared_gate.rows) {
    gate_up_block<FShared>(p, p.shared_gate, p.shared_up, 0, slot, 1.0F, p.shared_limit);
  }
}

template <Format F>
constexpr size_t down_bytes(int cols, int slots) {
  if constexpr (has_integer_codes(F)) {
    return static_cast<size_t>(slots) * StagedRows<F, 1>::bytes(cols) + grid_bytes<F>();
  }
  return 0;
}

// This lane's share of one output value, over `slots` consecutive experts. The first chunk of each may be loaded before
// the activations are there.
template <Format F>
class DownDots {
 public:
  __device__ DownDots(const DeviceWeight& w, int out) : w_(w), out_(out) {}
  // The next row, with the same weight.
  __device__ void move_to(int out) { out_ = out; }

  __device__ void start(const int* slices, int slots) {
    if constexpr (has_integer_codes(F)) {
      load(slices, 0, slots, threadIdx.x % kWarp);
    }
  }

  __device__ float finish(const ExpertParams& p, const int* slices, int first_slot, int slots, uint8_t* shared,
                          const uint64_t* grid) {
    float sum[1] = {};
    if constexpr (has_integer_codes(F)) {
      const size_t stride = StagedRows<F, 1>::bytes(w_.cols);
      const int chunks = w_.cols / (16 * Chunk<F>::kSegments);
      for (int first = 0; first < slots; first += kMaxUsed) {
        for (int c = threadIdx.x % kWarp; c < chunks; c += kWarp) {
          if (first > 0 || c >= kWarp) {
            load(slices, first, slots, c);
          }
#pragma unroll
          for (int i = 0; i < kMaxUsed; ++i) {
            if (first + i < slots) {
              const StagedRows<F, 1> x(shared + (first + i) * stride, w_.cols);
              dot_chunk<F, 1>(loaded_[i], x, c, grid, sum);
            }
          }
        }
      }
    } else {
      for (int i = 0; i < slots; ++i) {
        const int in = blockIdx.y * (p.used + 1) + first_slot + i;
        dot_float_row<F, 1>(w_, slices[i], out_, p.hidden.data, p.hidden.ld, in, in + 1, sum);
      }
    }
    return sum[0];
  }

 private:
  __device__ void load(const int* slices, int first, int slots, int c) {
    if (c >= w_.cols / (16 * Chunk<F>::kSegments)) {
      return;
    }
#pragma unroll
    for (int i = 0; i < kMaxUsed; ++i) {
      if (first + i < slots) {
        loaded_[i] = Chunk<F>::load(weight_row(w_, F, slices[first + i], out_), c);
      }
    }
  }

  struct None {};
  const DeviceWeight& w_;
  int out_;
  std::conditional_t<has_integer_codes(F), Chunk<has_integer_codes(F) ? F : Format::kQ8_0>, None> loaded_[kMaxUsed];
};

// The shared expert's row: one slot, several chunks a lane.
template <Format F>
__device__ float shared_down_dots(const ExpertParams& p, int out, uint8_t* shared, const uint64_t* grid) {
  float total = 0.0F;
  if constexpr (has_integer_codes(F)) {
    const StagedRows<F, 1> x(shared, p.shared_down.cols);
    auto dots = make_row_dots<F, 1, 1, 1>([&](int) { return weight_row(p.shared_down, F, 0, out); }, x.chunks());
    dots.start();
    dots.finish(x, grid, [&](int, float(&sum)[1][1]) { total = sum[0][0]; });
  } else {
    float sum[1] = {};
    const int in = blockIdx.y * (p.used + 1) + p.used;
    dot_float_row<F, 1>(p.shared_down, 0, out, p.hidden.data, p.hidden.ld, in, in + 1, sum);
    total = sum[0];
  }
  return total;
}

template <Format F>
__device__ const uint64_t* stage_hidden(const ExpertParams& p, const DeviceWeight& w, int first_slot, int slots,
                                        uint8_t* shared) {
  if constexpr (has_integer_codes(F)) {
    const size_t stride = StagedRows<F, 1>::bytes(w.cols);
    for (int i = 0; i < slots; ++i) {
      StagedRows<F, 1> x(shared + i * stride, w.cols);
      x.stage(p.hidden_q, blockIdx.y * (p.used + 1) + first_slot + i, 1, 0);
    }
    return stage_grid<F>(shared + slots * stride, w.grid);
  }
  return nullptr;
}

// blockIdx.x: kDownRows outputs; y: row. Sums in ascending expert number, then the shared expert.
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
  DownDots<FRouted> dots(p.down, min(first, p.down.rows - 1));
  if constexpr (kRouted) {
    // The predecessor waited for the router before it let this kernel start, so the choice is there already.
    if (threadIdx.x < p.used) {
      slices[threadIdx.x] = p.ids.data[blockIdx.y * p.ids.ld + threadIdx.x];
    }
    __syncthreads();
    dots.start(slices, p.used);
  }
  wait_for_predecessor();
  let_successor_start();
  if constexpr (kRouted) {
    grid = stage_hidden<FRouted>(p, p.down, 0, p.used, routed_bytes);
  }
  if constexpr (kShared) {
    shared_grid = stage_hidden<FShared>(p, p.shared_down, p.used, 1, shared_expert_bytes);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kPerWarp; ++r) {
    const int out = first + r;
    if (out >= p.down.rows) {
      return;
    }
    float sum = 0.0F;
    if constexpr (kRouted) {
      if (r > 0) {
        dots.move_to(out);
        dots.start(slices, p.used);
      }
      sum += dots.finish(p, slices, 0, p.used, routed_bytes, grid);
    }
    if constexpr (kShared) {
      sum += shared_down_dots<FShared>(p, out, shared_expert_bytes, shared_grid);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) {
      float* y = p.y.data + blockIdx.y * p.y.ld + out;
      *y = kRouted ? sum : *y + sum;
    }
  }
}

template <Format F>
size_t gate_bytes(int cols) {
  if constexpr (has_integer_codes(F)) {
    return StagedRows<F, 1>::bytes(cols) + grid_bytes<F>();
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
