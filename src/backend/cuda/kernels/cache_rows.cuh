// Rows of the cache: where they lie, how they are rounded and packed (core/activation_sim.h, core/packed_rows.h are the
// specification).
#pragma once

#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

constexpr int kFp8Group = 64;
constexpr int kFp4Group = 32;
constexpr float kFp8Floor = 1e-4F;
constexpr float kFp4Floor = 6.0F * 0x1p-126F;

__device__ inline unsigned power_of_two_scale(float amax, float largest) {
  const unsigned bits = __float_as_uint(amax * (1.0F / largest));
  const unsigned code = (bits >> 23) + ((bits & 0x007FFFFFU) != 0 ? 1U : 0U);
  return min(code, 255U);
}

// Magnitudes compare as integers, so that a NaN is larger than anything.
__device__ inline float warp_magnitude(float v, float floor) {
  unsigned m = max(__float_as_uint(v) & 0x7FFFFFFFU, __float_as_uint(floor));
  m = __reduce_max_sync(kFullMask, m);
  return __uint_as_float(m);
}

__device__ inline uint8_t to_e4m3(float v) { return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3); }

__device__ inline unsigned to_e2m1(float v) {
  const float a = fabsf(v);
  // Round to nearest, ties to the even code.
  const unsigned code = a <= 0.25F   ? 0
                        : a < 0.75F  ? 1
                        : a <= 1.25F ? 2
                        : a < 1.75F  ? 3
                        : a <= 2.5F  ? 4
                        : a < 3.5F   ? 5
                        : a <= 5.0F  ? 6
                                     : 7;
  return code | (__float_as_uint(v) >> 31) << 3;
}

__device__ inline float e2m1(unsigned code) {
  const unsigned m = code & 7;
  const float v = m < 2 ? 0.5F * static_cast<float>(m) : __uint_as_float((126U + (m >> 1)) << 23 | (m & 1) << 22);
  return (code & 8) != 0 ? -v : v;
}

// In integers: ptxas 13.0 stores a wrong low byte when the conversion instruction's result is stored bytewise.
__device__ inline unsigned bf16_code(float v) {
  const unsigned bits = __float_as_uint(v);
  return isnan(v) ? 0x7FC0U : (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}

struct RowPlanes {
  std::byte* codes;
  std::byte* rope;
  std::byte* scales;
};

__device__ inline RowPlanes kv_planes(const RowRegion& g, std::byte* region, int row) {
  const int nope = g.dims - g.rope;
  const int n_scales = ceil_div(nope, kFp8Group);
  const auto r = static_cast<size_t>(row);
  const auto rows = static_cast<size_t>(g.rows);
  return {region + r * nope, region + rows * nope + r * 2 * g.rope, region + rows * (nope + 2 * g.rope) + r * n_scales};
}

__device__ inline RowPlanes index_planes(const RowRegion& g, std::byte* region, int row) {
  const int code_bytes = (g.dims + 1) / 2;
  const auto r = static_cast<size_t>(row);
  return {region + r * code_bytes, nullptr,
          region + static_cast<size_t>(g.rows) * code_bytes + r * ceil_div(g.dims, kFp4Group)};
}

__device__ inline float kv_value(const RowRegion& g, std::byte* region, int row, int d) {
  if (!g.packed) {
    return reinterpret_cast<const float*>(region)[static_cast<size_t>(row) * g.dims + d];
  }
  const RowPlanes p = kv_planes(g, region, row);
  const int nope = g.dims - g.rope;
  if (d < nope) {
    return e4m3(static_cast<uint8_t>(p.codes[d])) * e8m0(static_cast<unsigned>(p.scales[d / kFp8Group]));
  }
  const std::byte* at = p.rope + 2 * (d - nope);
  return __uint_as_float(static_cast<unsigned>(at[0]) << 16 | static_cast<unsigned>(at[1]) << 24);
}

__device__ inline float index_value(const RowRegion& g, std::byte* region, int row, int d) {
  if (!g.packed) {
    return reinterpret_cast<const float*>(region)[static_cast<size_t>(row) * g.dims + d];
  }
  const RowPlanes p = index_planes(g, region, row);
  return e2m1(static_cast<unsigned>(p.codes[d / 2]) >> (d % 2 * 4) & 15) *
         e8m0(static_cast<unsigned>(p.scales[d / kFp4Group]));
}

// The block that holds entry c of a sequence.
__device__ inline std::byte* entry_block(const CacheParams& p, int sequence, int c) {
  return p.step.blocks[p.step.table_offsets[sequence] + c / p.rows_per_block];
}
__device__ inline std::byte* entry_region(const CacheParams& p, int sequence, int c, const RowRegion& g) {
  return entry_block(p, sequence, c) + g.offset;
}

// All threads of the block, whole warps; `row` is in shared memory. What a stored KV row keeps of its values.
__device__ inline void round_kv_row(const RowRegion& g, bool simulated, float* row) {
  const int nope = g.dims - g.rope;
  const int lane = threadIdx.x % kWarp;
  if (simulated) {
    for (int first = static_cast<int>(threadIdx.x / kWarp) * kFp8Group; first < nope;
         first += static_cast<int>(blockDim.x / kWarp) * kFp8Group) {
      const int n = min(kFp8Group, nope - first);
      const float a = lane < n ? row[first + lane] : 0.0F;
      const float b = lane + kWarp < n ? row[first + lane + kWarp] : 0.0F;
      const float amax = fmaxf(warp_magnitude(a, kFp8Floor), warp_magnitude(b, kFp8Floor));
      const bool broken = isnan(a) || isnan(b) || isinf(a) || isinf(b);
      const float scale =
          __any_sync(kFullMask, broken) ? __uint_as_float(0x7FC00000U) : e8m0(power_of_two_scale(amax, 448.0F));
      if (lane < n) {
        row[first + lane] = e4m3(to_e4m3(a / scale)) * scale;
      }
      if (lane + kWarp < n) {
        row[first + lane + kWarp] = e4m3(to_e4m3(b / scale)) * scale;
      }
    }
  }
  if (g.packed) {
    for (int d = nope + static_cast<int>(threadIdx.x); d < g.dims; d += static_cast<int>(blockDim.x)) {
      row[d] = __bfloat162float(__float2bfloat16_rn(row[d]));
    }
  }
  __syncthreads();
}

// All threads of the block, whole warps. Values that were rounded before are stored without loss.
__device__ inline void store_kv_row(const RowRegion& g, std::byte* region, int index, const float* row) {
  if (!g.packed) {
    auto* out = reinterpret_cast<float*>(region) + static_cast<size_t>(index) * g.dims;
    for (int d = static_cast<int>(threadIdx.x); d < g.dims; d += static_cast<int>(blockDim.x)) {
      out[d] = row[d];
    }
    return;
  }
  const RowPlanes p = kv_planes(g, region, index);
  const int nope = g.dims - g.rope;
  const int lane = threadIdx.x % kWarp;
  for (int first = static_cast<int>(threadIdx.x / kWarp) * kFp8Group; first < nope;
       first += static_cast<int>(blockDim.x / kWarp) * kFp8Group) {
    const int n = min(kFp8Group, nope - first);
    const float a = lane < n ? row[first + lane] : 0.0F;
    const float b = lane + kWarp < n ? row[first + lane + kWarp] : 0.0F;
    const float amax = fmaxf(warp_magnitude(a, kFp8Floor), warp_magnitude(b, kFp8Floor));
    const bool broken = isnan(a) || isnan(b) || isinf(a) || isinf(b);
    const unsigned code = __any_sync(kFullMask, broken) ? 255U : power_of_two_scale(amax, 448.0F);
    const float scale = e8m0(code);
    if (lane < n) {
      p.codes[first + lane] = static_cast<std::byte>(to_e4m3(a / scale));
    }
    if (lane + kWarp < n) {
      p.codes[first + lane + kWarp] = static_cast<std::byte>(to_e4m3(b / scale));
    }
    if (lane == 0) {
      p.scales[first / kFp8Group] = static_cast<std::byte>(code);
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < g.rope; i += static_cast<int>(blockDim.x)) {
    const unsigned bits = bf16_code(row[nope + i]);
    p.rope[2 * i] = static_cast<std::byte>(bits & 0xFF);
    p.rope[2 * i + 1] = static_cast<std::byte>(bits >> 8);
  }
}

// Hadamard rotation of n = 2^m values in shared memory, in stages of distance 1, 2, 4, ...; all threads of the block.
__device__ inline void hadamard_row(float* x, int n) {
  __syncthreads();
  for (int half = 1; half < n; half *= 2) {
    for (int i = static_cast<int>(threadIdx.x); i < n / 2; i += static_cast<int>(blockDim.x)) {
      const int at = i / half * 2 * half + i % half;
      const float a = x[at];
      const float b = x[at + half];
      x[at] = a + b;
      x[at + half] = a - b;
    }
    __syncthreads();
  }
  const auto scale = static_cast<float>(1.0 / sqrt(static_cast<double>(n)));
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    x[i] *= scale;
  }
  __syncthreads();
}

// FP4 simulation of one group of up to 32 values, one a lane; returns the rounded value.
__device__ inline float fp4_round(float v, unsigned* scale_code) {
  const bool broken = isnan(v) || isinf(v);
  unsigned code = power_of_two_scale(warp_magnitude(v, kFp4Floor), 6.0F);
  if (__any_sync(kFullMask, broken)) {
    code = 255U;
  }
  *scale_code = code;
  const float scale = e8m0(code);
  return e2m1(to_e2m1(v / scale)) * scale;
}

// Rotates the last `rope` of n values in shared memory by the row's angles, forwards or back. No barrier inside.
__device__ inline void rotate_tail(float* tail, int pairs, const float2* rotations, float direction) {
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += static_cast<int>(blockDim.x)) {
    const double c = rotations[i].x;
    const double s = static_cast<double>(rotations[i].y) * direction;
    const double a = tail[2 * i];
    const double b = tail[2 * i + 1];
    tail[2 * i] = static_cast<float>(a * c - b * s);
    tail[2 * i + 1] = static_cast<float>(a * s + b * c);
  }
}

// One float32 product, then an exact range reduction (backend/rope.h).
__device__ inline float2 rotation_at(int position, float frequency) {
  const float angle = __fmul_rn(static_cast<float>(position), frequency);
  double s = 0.0;
  double c = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  return make_float2(static_cast<float>(c), static_cast<float>(s));
}

}  // namespace fathom::cuda
