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

// One warp a row. Scores, then the best `used` by repeated search: ties go to the lower number.
__global__ void __launch_bounds__(kWarp) route_kernel(const __grid_constant__ RouteParams p) {
  extern __shared__ float scores[];  // [experts], biased [experts], ids [used]
  wait_for_predecessor();
  let_successor_start();
  float* biased = scores + p.experts;
  auto* ids = reinterpret_cast<int*>(biased + p.experts);
  const int row = blockIdx.x;
  const int lane = threadIdx.x;
  for (int e = lane; e < p.experts; e += kWarp) {
    const float x = p.logits.data[row * p.logits.ld + e];
    scores[e] = sqrtf(x > 20.0F ? x : log1pf(expf(x)));
    biased[e] = p.bias != nullptr ? scores[e] + p.bias[e] : 0.0F;
  }
  __syncwarp();
  if (p.token_table != nullptr) {
    if (lane < p.used) {
      ids[lane] = p.token_table[static_cast<int64_t>(p.tokens[row]) * p.used + lane];
    }
  } else {
    for (int k = 0; k < p.used; ++k) {
      float best = -INFINITY;
      int best_id = p.experts;
      for (int e = lane; e < p.experts; e += kWarp) {
        if (biased[e] > best) {
          best = biased[e];
          best_id = e;
        }
      }
#pragma unroll
      for (int step = kWarp / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(kFullMask, best, step);
        const int other_id = __shfl_xor_sync(kFullMask, best_id, step);
        if (other > best || (other == best && other_id < best_id)) {
          best = other;
          best_id = other_id;
        }
      }
      if (lane == 0) {
        best_id = min(best_id, p.experts - 1);  // only NaN scores leave none
        ids[k] = best_id;
        biased[best_id] = -INFINITY;
      }
      __syncwarp();
    }
  }
  __syncwarp();
  if (lane != 0) {
    return;
  }
  for (int i = 1; i < p.used; ++i) {  // ascending, the order in which experts are summed
    const int id = ids[i];
    int at = i;
    for (; at > 0 && ids[at - 1] > id; --at) {
      ids[at] = ids[at - 1];
    }
    ids[at] = id;
  }
  float sum = 0.0F;
  for (int i = 0; i < p.used; ++i) {
    sum += scores[ids[i]];
  }
  for (int i = 0; i < p.used; ++i) {
    p.ids.data[row * p.ids.ld + i] = ids[i];
    p.weights.data[row * p.weights.ld + i] = scores[ids[i]] / sum * p.scale;
  }
}

// Products of gate and up rows of one expert for one warp's hidden values.
template <Format F, int R>
__device__ void gate_up_dots(const DeviceWeight& gate, const DeviceWeight& up, int slice, int first,
                             const ExpertParams& p, void* shared, const uint64_t* grid, int row, float (&sum)[R][1]) {
  if constexpr (has_integer_codes(F)) {
    const StagedRows<F, 1> x(shared, gate.cols);
    WeightRow w[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      w[r] = weight_row(r % 2 == 0 ? gate : up, F, slice, min(first + r / 2, gate.rows - 1));
    }
    dot_rows<F, 1, R>(w, x, grid, sum);
  } else {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      dot_float_row<F, 1>(r % 2 == 0 ? gate : up, slice, min(first + r / 2, gate.rows - 1), p.x.data, p.x.ld, row,
                          row + 1, sum[r]);
    }
  }
}

template <Format F>
__device__ void gate_up_block(const ExpertParams& p, const DeviceWeight& gate, const DeviceWeight& up, int slice,
                              int slot, float weight, float limit) {
  extern __shared__ uint4 shared_bytes[];
  __shared__ float hidden[kGateRows];
  const int row = blockIdx.y;
  const uint64_t* grid = nullptr;
  if constexpr (has_integer_codes(F)) {
    StagedRows<F, 1> x(shared_bytes, gate.cols);
    grid = stage_grid<F>(x.end(), gate.grid);
    x.stage(p.xq, row, 1, 0);
    __syncthreads();
  }
  constexpr int kPerWarp = kGateRows / (kGemvThreads / kWarp);
  constexpr int kAtOnce = 2;
  const int warp = threadIdx.x / kWarp;
  const int first_hidden = blockIdx.x * kGateRows;
#pragma unroll 1
  for (int u = 0; u < kPerWarp; u += kAtOnce) {
    const int local = warp * kPerWarp + u;
    float sum[2 * kAtOnce][1] = {};
    if (first_hidden + local < gate.rows) {
      gate_up_dots<F, 2 * kAtOnce>(gate, up, slice, first_hidden + local, p, shared_bytes, grid, row, sum);
    }
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      const float g = warp_sum(sum[2 * a][0]);
      const float v = warp_sum(sum[2 * a + 1][0]);
      if (threadIdx.x % kWarp == 0) {
        hidden[local + a] = first_hidden + local + a < gate.rows ? weight * swiglu(g, v, limit) : 0.0F;
      }
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

// This lane's share of one output value, over `slots` consecutive experts.
template <Format F>
__device__ float down_dots(const ExpertParams& p, const DeviceWeight& w, const int* slices, int first_slot, int slots,
                           int out, uint8_t* shared, const uint64_t* grid) {
  float sum[1] = {};
  if constexpr (has_integer_codes(F)) {
    const size_t stride = StagedRows<F, 1>::bytes(w.cols);
    const int chunks = w.cols / (16 * Chunk<F>::kSegments);
    for (int first = 0; first < slots; first += kMaxUsed) {
      for (int c = threadIdx.x % kWarp; c < chunks; c += kWarp) {
        Chunk<F> loaded[kMaxUsed];
#pragma unroll
        for (int i = 0; i < kMaxUsed; ++i) {
          if (first + i < slots) {
            loaded[i] = Chunk<F>::load(weight_row(w, F, slices[first + i], out), c);
          }
        }
#pragma unroll
        for (int i = 0; i < kMaxUsed; ++i) {
          if (first + i < slots) {
            const StagedRows<F, 1> x(shared + (first + i) * stride, w.cols);
            dot_chunk<F, 1>(loaded[i], x, c, grid, sum);
          }
        }
      }
    }
  } else {
    for (int i = 0; i < slots; ++i) {
      const int in = blockIdx.y * (p.used + 1) + first_slot + i;
      dot_float_row<F, 1>(w, slices[i], out, p.hidden.data, p.hidden.ld, in, in + 1, sum);
    }
  }
  return sum[0];
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
  wait_for_predecessor();
  let_successor_start();
  auto* routed_bytes = reinterpret_cast<uint8_t*>(shared_bytes);
  uint8_t* shared_expert_bytes = routed_bytes + (kRouted ? down_bytes<FRouted>(p.down.cols, p.used) : 0);
  const uint64_t* grid = nullptr;
  const uint64_t* shared_grid = nullptr;
  if constexpr (kRouted) {
    if (threadIdx.x < p.used) {
      slices[threadIdx.x] = p.ids.data[blockIdx.y * p.ids.ld + threadIdx.x];
    }
    grid = stage_hidden<FRouted>(p, p.down, 0, p.used, routed_bytes);
  }
  if constexpr (kShared) {
    shared_grid = stage_hidden<FShared>(p, p.shared_down, p.used, 1, shared_expert_bytes);
  }
  __syncthreads();
  constexpr int kPerWarp = kDownRows / (kGemvThreads / kWarp);
  const int first = blockIdx.x * kDownRows + static_cast<int>(threadIdx.x / kWarp) * kPerWarp;
#pragma unroll
  for (int r = 0; r < kPerWarp; ++r) {
    const int out = first + r;
    if (out >= p.down.rows) {
      return;
    }
    float sum = 0.0F;
    if constexpr (kRouted) {
      sum += down_dots<FRouted>(p, p.down, slices, 0, p.used, out, routed_bytes, grid);
    }
    if constexpr (kShared) {
      const int zero = 0;
      sum += down_dots<FShared>(p, p.shared_down, &zero, p.used, 1, out, shared_expert_bytes, shared_grid);
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
  const size_t bytes = static_cast<size_t>(2 * p.experts + p.used) * sizeof(float);
  start(launch, route_kernel, dim3(p.rows), kWarp, bytes, p);
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
