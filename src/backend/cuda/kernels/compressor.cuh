// Compressed KV entries and index keys: what one block of threads does for one row of a step.
#pragma once

#include "backend/cuda/kernels/cache_rows.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

// The newest rows of the step go to the state ring: [value | gate + ape].
__device__ inline void store_state_row(const CompressParams& p, int row, int sequence, int position) {
  const int channels = p.roles * p.width;
  const float* v = p.kv.data + row * p.kv.ld;
  const float* g = p.gate.data + row * p.gate.ld;
  const float* ape = p.ape + position % p.cache.ratio * channels;
  auto* out = reinterpret_cast<float*>(p.cache.step.slots[sequence] + p.state.offset) +
              static_cast<size_t>(position % p.state.capacity) * 2 * channels;
  for (int i = threadIdx.x; i < channels; i += blockDim.x) {
    out[i] = v[i];
    out[channels + i] = g[i] + ape[i];
  }
}

// Block r pools the entry that row r completes, if it completes one.
__device__ inline void pool_entry(const CompressParams& p, int row, int sequence, int position, float* entry,
                                  float* shared) {
  const int ratio = p.cache.ratio;
  const int channels = p.roles * p.width;
  const int start = p.cache.step.starts[sequence];
  const int first_row = p.cache.step.first_rows[sequence];
  const int c = position / ratio;
  const int oldest = max(0, (c - p.roles + 1) * ratio);
  const auto* ring = reinterpret_cast<const float*>(p.cache.step.slots[sequence] + p.state.offset);

  float square = 0.0F;
  for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
    float max = -INFINITY;
    float sum = 0.0F;
    float pooled = 0.0F;
    constexpr int kBatch = 8;  // tokens whose loads are in flight together
    for (int first = oldest; first <= position; first += kBatch) {
      float v[kBatch];
      float g[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int t = first + k;
        const int channel = i + (t / ratio == c ? (p.roles - 1) * p.width : 0);
        v[k] = 0.0F;
        g[k] = -INFINITY;
        if (t < min(start, position + 1)) {
          const float* from = ring + static_cast<size_t>(t % p.state.capacity) * 2 * channels + channel;
          v[k] = from[0];
          g[k] = from[channels];
        } else if (t <= position) {
          const int r = first_row + t - start;
          v[k] = p.kv.data[r * p.kv.ld + channel];
          g[k] = p.gate.data[r * p.gate.ld + channel] + p.ape[t % ratio * channels + channel];
        }
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (first + k > position) {
          break;
        }
        if (g[k] > max) {
          const float shrink = expf(max - g[k]);
          sum *= shrink;
          pooled *= shrink;
          max = g[k];
        }
        const float e = expf(g[k] - max);
        sum += e;
        pooled += e * v[k];
      }
    }
    entry[i] = pooled / sum;
    square += entry[i] * entry[i];
  }
  const float r = rsqrtf(block_sum(square, shared) / static_cast<float>(p.width) + p.eps);
  for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
    entry[i] = entry[i] * r * p.norm[i];
  }
  __syncthreads();
  const int pairs = p.rope / 2;
  float* tail = entry + p.width - p.rope;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 rotation = rotation_at(c * ratio, p.frequencies[i]);
    const double a = tail[2 * i];
    const double b = tail[2 * i + 1];
    tail[2 * i] = static_cast<float>(a * rotation.x - b * rotation.y);
    tail[2 * i + 1] = static_cast<float>(a * rotation.y + b * rotation.x);
  }
  __syncthreads();
  const int at = c % p.cache.rows_per_block;
  if (!p.index) {
    std::byte* region = entry_region(p.cache, sequence, c, p.cache.entries);
    round_kv_row(p.cache.entries, p.cache.simulated, entry);
    store_kv_row(p.cache.entries, region, at, entry);
    return;
  }
  const RowRegion& g = p.cache.index;
  std::byte* region = entry_region(p.cache, sequence, c, g);
  if (p.cache.simulated) {
    hadamard_row(entry, p.width);
  }
  const int lane = threadIdx.x % kWarp;
  for (int first = static_cast<int>(threadIdx.x / kWarp) * kFp4Group; first < p.width;
       first += static_cast<int>(blockDim.x / kWarp) * kFp4Group) {
    const bool inside = first + lane < p.width;
    float v = inside ? entry[first + lane] : 0.0F;
    unsigned code = 0;
    if (p.cache.simulated) {
      v = fp4_round(v, &code);
      v = fp4_round(v, &code);  // the scale of the rounded values, as a packed row has it
    }
    if (g.packed) {
      const RowPlanes planes = index_planes(g, region, at);
      const unsigned nibble = to_e2m1(v / e8m0(code));
      const unsigned above = __shfl_down_sync(kFullMask, nibble, 1);
      if (inside && lane % 2 == 0) {
        planes.codes[(first + lane) / 2] =
            static_cast<std::byte>(nibble | (first + lane + 1 < p.width ? above << 4 : 0));
      }
      if (lane == 0) {
        planes.scales[first / kFp4Group] = static_cast<std::byte>(code);
      }
    } else if (inside) {
      reinterpret_cast<float*>(region)[static_cast<size_t>(at) * g.dims + first + lane] = v;
    }
  }
}

}  // namespace fathom::cuda
