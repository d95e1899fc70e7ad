// The best of many scores, by one block.
#pragma once

#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/route.cuh"

namespace fathom::cuda {

constexpr int kSelectThreads = 512;

constexpr int kSelectWarps = kSelectThreads / kWarp;
constexpr int kKeysHeld = 16;  // scores that a thread keeps in registers at a time

struct SelectSpace {
  int histogram[256];
  int counts[2][kKeysHeld * kSelectWarps];  // better, equal: by round and warp
  int totals[2];
  unsigned digit;
  int remaining;
};

// Counts become exclusive prefix sums; by one warp.
__device__ inline void sum_counts(SelectSpace& s) {
  constexpr int kPerLane = kKeysHeld * kSelectWarps / kWarp;
  const int lane = threadIdx.x;
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    int* counts = s.counts[which] + lane * kPerLane;
    int own[kPerLane];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      own[i] = counts[i];
      sum += own[i];
    }
    int before = sum;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const int other = __shfl_up_sync(kFullMask, before, step);
      before += lane >= step ? other : 0;
    }
    if (lane == kWarp - 1) {
      s.totals[which] = before;
    }
    before -= sum;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      counts[i] = before;
      before += own[i];
    }
  }
}

// The largest digit d of which and above which there are at least `remaining` entries, by one warp.
__device__ inline void find_digit(SelectSpace& s) {
  constexpr int kBins = 256 / kWarp;
  const int lane = threadIdx.x;
  const int first = 255 - kBins * lane;  // of this lane's bins, downwards
  int sum = 0;
  for (int i = 0; i < kBins; ++i) {
    sum += s.histogram[first - i];
  }
  int above = sum;  // inclusive prefix over lanes
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kFullMask, above, step);
    above += lane >= step ? other : 0;
  }
  const int wanted = s.remaining;
  __syncwarp();
  int left = wanted - (above - sum);
  if (left > 0 && left <= sum) {
    int digit = first;
    while (s.histogram[digit] < left) {
      left -= s.histogram[digit];
      --digit;
    }
    s.digit = static_cast<unsigned>(digit);
    s.remaining = left;
  }
}

// The topk best of n > topk scores, ascending by number; of equal ones the first. Radix selection; the whole block of
// kSelectThreads.
__device__ inline void select_best(const float* scores, int n, int topk, int32_t* out, SelectSpace& s) {
  constexpr int kAtOnce = kKeysHeld * kSelectThreads;
  const int thread = static_cast<int>(threadIdx.x);
  unsigned keys[kKeysHeld];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kKeysHeld; ++i) {
      const int at = first + i * kSelectThreads + thread;
      keys[i] = at < n ? ordered(__ldcg(scores + at)) : 0;
    }
  };
  const bool held = n <= kAtOnce;
  if (held) {
    load(0);
  }
  unsigned prefix = 0;
  if (thread == 0) {
    s.remaining = topk;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = thread; i < 256; i += kSelectThreads) {
      s.histogram[i] = 0;
    }
    __syncthreads();
    for (int first = 0; first < n; first += kAtOnce) {
      if (!held) {
        load(first);
      }
#pragma unroll
      for (int i = 0; i < kKeysHeld; ++i) {
        if (first + i * kSelectThreads >= n) {
          break;
        }
        if (first + i * kSelectThreads + thread < n && (shift == 24 || (keys[i] ^ prefix) >> (shift + 8) == 0)) {
          atomicAdd(&s.histogram[(keys[i] >> shift) & 255], 1);
        }
      }
    }
    __syncthreads();
    if (thread < kWarp) {
      find_digit(s);
    }
    __syncthreads();
    prefix |= s.digit << shift;
  }
  const int equals_wanted = s.remaining;
  const int warp = thread / kWarp;
  const unsigned below = (1U << (thread % kWarp)) - 1U;
  int better_before = 0;
  int equals_before = 0;
  for (int first = 0; first < n; first += kAtOnce) {
    if (!held) {
      load(first);
    }
    const auto is_better = [&](int i) { return first + i * kSelectThreads + thread < n && keys[i] > prefix; };
    const auto is_equal = [&](int i) { return first + i * kSelectThreads + thread < n && keys[i] == prefix; };
#pragma unroll
    for (int i = 0; i < kKeysHeld; ++i) {
      if (first + i * kSelectThreads >= n) {
        if (thread % kWarp == 0) {
          s.counts[0][i * kSelectWarps + warp] = 0;
          s.counts[1][i * kSelectWarps + warp] = 0;
        }
        continue;
      }
      const unsigned better = __ballot_sync(kFullMask, is_better(i));
      const unsigned equal = __ballot_sync(kFullMask, is_equal(i));
      if (thread % kWarp == 0) {
        s.counts[0][i * kSelectWarps + warp] = __popc(better);
        s.counts[1][i * kSelectWarps + warp] = __popc(equal);
      }
    }
    __syncthreads();
    if (thread < kWarp) {
      sum_counts(s);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kKeysHeld; ++i) {
      if (first + i * kSelectThreads >= n) {
        break;
      }
      const int better =
          better_before + s.counts[0][i * kSelectWarps + warp] + __popc(__ballot_sync(kFullMask, is_better(i)) & below);
      const int equal =
          equals_before + s.counts[1][i * kSelectWarps + warp] + __popc(__ballot_sync(kFullMask, is_equal(i)) & below);
      if (is_better(i) || (is_equal(i) && equal < equals_wanted)) {
        out[better + min(equal, equals_wanted)] = first + i * kSelectThreads + thread;
      }
    }
    better_before += s.totals[0];
    equals_before += s.totals[1];
    __syncthreads();
  }
}

}  // namespace fathom::cuda
