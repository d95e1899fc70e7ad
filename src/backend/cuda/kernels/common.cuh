// Small pieces that several kernels share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fathom::cuda {

constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xFFFFFFFFU;

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    v += __shfl_xor_sync(kFullMask, v, step);
  }
  return v;
}

__device__ inline float warp_max(float v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    v = fmaxf(v, __shfl_xor_sync(kFullMask, v, step));
  }
  return v;
}

// Sum over the block, the same in every thread and in one order. `shared` holds 32 floats; may be reused after return.
__device__ inline float block_sum(float v, float* shared) {
  const int warp = threadIdx.x / kWarp;
  const int n_warps = ceil_div(blockDim.x, kWarp);
  v = warp_sum(v);
  if (threadIdx.x % kWarp == 0) {
    shared[warp] = v;
  }
  __syncthreads();
  float sum = 0.0F;
  for (int i = 0; i < n_warps; ++i) {
    sum += shared[i];
  }
  __syncthreads();
  return sum;
}

__device__ inline float block_max(float v, float* shared) {
  const int warp = threadIdx.x / kWarp;
  const int n_warps = ceil_div(blockDim.x, kWarp);
  v = warp_max(v);
  if (threadIdx.x % kWarp == 0) {
    shared[warp] = v;
  }
  __syncthreads();
  float max = shared[0];
  for (int i = 1; i < n_warps; ++i) {
    max = fmaxf(max, shared[i]);
  }
  __syncthreads();
  return max;
}

// Programmatic dependent launch: a kernel launched with it may start while its predecessor still runs, and must wait
// before it reads what that wrote. Without the launch attribute both do nothing.
__device__ inline void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Sixteen bytes of a weight. Kept in the first-level cache: where threads have rows of their own, the rest of the line
// is what they need next.
__device__ inline uint4 load_codes(const void* p) { return __ldg(static_cast<const uint4*>(p)); }

// 2^(code - 127); 255 is NaN.
__device__ inline float e8m0(unsigned code) {
  const unsigned bits = code == 0 ? 0x00400000U : code == 255 ? 0x7FC00000U : code << 23;
  return __uint_as_float(bits);
}

__device__ inline float e4m3(uint8_t code) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3))); }

// The PRMT instruction; unlike __byte_perm it honours the top bit of a selector: the byte's sign, eight times.
__device__ inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}
__device__ inline uint32_t spread_signs(uint32_t v) { return permute_bytes(v, 0, 0xBA98); }

// Four positive bytes, those negated where the top bit of the same byte of `signs` is set.
__device__ inline uint32_t apply_signs(uint32_t magnitudes, uint32_t signs) {
  const uint32_t mask = spread_signs(signs);
  return (magnitudes ^ mask) + (mask & 0x01010101U);
}

}  // namespace fathom::cuda
