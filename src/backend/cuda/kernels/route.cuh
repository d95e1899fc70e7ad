// The choice of a row's experts by one warp.
#pragma once

#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

// Integers in the order of the values.
__device__ inline unsigned ordered(float v) {
  const unsigned bits = __float_as_uint(v);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Lane l holds experts l, l + 32, ... Scores, then the best `used` by repeated search: ties go to the lower number.
// logit(e); put(rank, id, weight) gets them in ascending order of id, the order in which experts are summed.
// scores: [experts], shared memory.
template <int kPerLane, class Logit, class Put>
__device__ void choose_experts(const RouteParams& p, int row, float* scores, Logit logit, Put put) {
  const int lane = threadIdx.x % kWarp;
  unsigned keys[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int e = lane + i * kWarp;
    keys[i] = 0;
    if (e < p.experts) {
      const float x = logit(e);
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
    put(rank, id, scores[id] / sum * p.scale);
  }
}

}  // namespace fathom::cuda
