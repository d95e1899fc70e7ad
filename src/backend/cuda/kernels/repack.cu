// From the bytes of a file to the planes that kernels read, and random planes for synthetic models.
#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/repack.h"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 128;

__device__ void copy_bytes(uint8_t* to, const uint8_t* from, int n) {
  for (int i = 0; i < n; ++i) {
    to[i] = from[i];
  }
}

__device__ void repack_q8_0(const uint8_t* from, uint8_t* codes, uint8_t* scales, int64_t i) {
  copy_bytes(scales + 2 * i, from, 2);
  copy_bytes(codes + 32 * i, from + 2, 32);
}

__device__ void repack_mxfp4(const uint8_t* from, uint8_t* codes, uint8_t* scales, int64_t i) {
  scales[i] = from[0];
  copy_bytes(codes + 16 * i, from + 1, 16);
}

// Neighbours in one byte become values j and j + 16 of one byte.
__device__ void repack_e2m1(const uint8_t* from, uint8_t* codes, int64_t i) {
  const auto value = [&](int k) { return (from[k / 2] >> (k % 2 * 4)) & 0xF; };
  for (int j = 0; j < 16; ++j) {
    codes[16 * i + j] = static_cast<uint8_t>(value(j) | value(j + 16) << 4);
  }
}

__device__ void repack_q4_k(const uint8_t* from, uint8_t* codes, uint8_t* scales, uint8_t* supers, int64_t i) {
  copy_bytes(supers + 4 * i, from, 4);
  const uint8_t* packed = from + 4;
  for (int s = 0; s < 8; ++s) {
    int scale = packed[s % 4] & 63;
    int min = packed[s % 4 + 4] & 63;
    if (s >= 4) {
      scale = (packed[s + 4] & 0xF) | packed[s - 4] >> 6 << 4;
      min = packed[s + 4] >> 4 | packed[s] >> 6 << 4;
    }
    scales[16 * i + 2 * s] = static_cast<uint8_t>(scale);
    scales[16 * i + 2 * s + 1] = static_cast<uint8_t>(min);
  }
  copy_bytes(codes + 128 * i, from + 16, 128);
}

// Scale of 16 values number 8 h + 2 s + g goes to place 8 h + 4 g + s.
__device__ int scale_place(int index) { return index / 8 * 8 + index % 2 * 4 + index % 8 / 2; }

__device__ void repack_q2_k(const uint8_t* from, uint8_t* codes, uint8_t* scales, uint8_t* supers, int64_t i) {
  for (int s = 0; s < 16; ++s) {
    scales[16 * i + scale_place(s)] = from[s];
  }
  copy_bytes(codes + 64 * i, from + 16, 64);
  copy_bytes(supers + 4 * i, from + 80, 4);
}

__device__ void repack_q3_k(const uint8_t* from, uint8_t* codes, uint8_t* high, uint8_t* scales, uint8_t* supers,
                            int64_t i) {
  copy_bytes(high + 32 * i, from, 32);
  copy_bytes(codes + 64 * i, from + 32, 64);
  const uint8_t* packed = from + 96;
  for (int s = 0; s < 16; ++s) {
    const int low = (packed[s % 8] >> (s / 8 * 4)) & 0xF;
    const int top = (packed[8 + s % 4] >> (s / 4 * 2)) & 3;
    scales[16 * i + scale_place(s)] = static_cast<uint8_t>((low | top << 4) - 32);
  }
  copy_bytes(supers + 2 * i, from + 108, 2);
}

// The eighth sign of eight values becomes a stored one; the scale moves to a plane of its own. Signs are laid out so
// that a shift by k brings those of values 4 k to 4 k + 3 to the tops of the word's bytes.
__device__ void repack_iq2_xxs(const uint8_t* from, uint8_t* codes, uint8_t* scales, uint8_t* supers, int64_t i) {
  copy_bytes(supers + 2 * i, from, 2);
  for (int s = 0; s < 8; ++s) {
    const uint8_t* sub = from + 2 + 8 * s;
    const unsigned word = sub[4] | sub[5] << 8 | sub[6] << 16 | static_cast<unsigned>(sub[7]) << 24;
    copy_bytes(codes + 64 * i + 8 * s, sub, 4);
    unsigned signs = 0;  // bit v: value v
    for (int g = 0; g < 4; ++g) {
      const unsigned seven = (word >> (7 * g)) & 0x7F;
      signs |= (seven | (__popc(seven) & 1U) << 7) << (8 * g);
    }
    for (int j = 0; j < 4; ++j) {
      unsigned byte = 0;
      for (int k = 0; k < 8; ++k) {
        byte |= ((signs >> (4 * k + j)) & 1U) << (7 - k);
      }
      codes[64 * i + 8 * s + 4 + j] = static_cast<uint8_t>(byte);
    }
    if (s % 2 == 1) {
      const unsigned before = (sub[-1] >> 4) & 0xF;
      scales[4 * i + s / 2] = static_cast<uint8_t>(before | (word >> 28) << 4);
    }
  }
}

__global__ void repack_kernel(RepackParams p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.n_blocks) {
    return;
  }
  const uint8_t* from = p.from + i * p.block_bytes;
  switch (p.source) {
    case RepackSource::kQ8_0:
      return repack_q8_0(from, p.codes, p.scales, i);
    case RepackSource::kMXFP4:
      return repack_mxfp4(from, p.codes, p.scales, i);
    case RepackSource::kE2M1:
      return repack_e2m1(from, p.codes, i);
    case RepackSource::kQ4_K:
      return repack_q4_k(from, p.codes, p.scales, p.supers, i);
    case RepackSource::kQ2_K:
      return repack_q2_k(from, p.codes, p.scales, p.supers, i);
    case RepackSource::kQ3_K:
      return repack_q3_k(from, p.codes, p.high, p.scales, p.supers, i);
    case RepackSource::kIQ2_XXS:
      return repack_iq2_xxs(from, p.codes, p.scales, p.supers, i);
  }
}

__device__ uint32_t mix_bits(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ULL;
  return static_cast<uint32_t>(x >> 32);
}

__global__ void fill_bits_kernel(uint32_t* out, int64_t n, uint64_t seed) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    out[i] = mix_bits(seed + static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
  }
}

__global__ void fill_words_kernel(uint32_t* out, int64_t n, uint32_t word) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    out[i] = word;
  }
}

template <class T>
__global__ void fill_floats_kernel(T* out, int64_t n, uint64_t seed, float mean, float spread) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const uint32_t bits = mix_bits(seed + static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
    out[i] = static_cast<T>(mean + spread * (static_cast<float>(bits >> 8) * 0x1p-23F - 1.0F));
  }
}

constexpr int kFillBlocks = 2048;

}  // namespace

void repack(const Launch& launch, const RepackParams& p) {
  start(launch, repack_kernel, dim3(static_cast<unsigned>((p.n_blocks + kThreads - 1) / kThreads)), kThreads, 0, p);
}

void fill_random_bits(const Launch& launch, void* out, size_t bytes, uint64_t seed) {
  start(launch, fill_bits_kernel, dim3(kFillBlocks), 256, 0, static_cast<uint32_t*>(out),
        static_cast<int64_t>(bytes / 4), seed);
}

void fill_words(const Launch& launch, void* out, size_t bytes, uint32_t word) {
  start(launch, fill_words_kernel, dim3(kFillBlocks), 256, 0, static_cast<uint32_t*>(out),
        static_cast<int64_t>(bytes / 4), word);
}

void fill_random_floats(const Launch& launch, Format format, void* out, int64_t n, uint64_t seed, float mean,
                        float spread) {
  switch (format) {
    case Format::kF16:
      return start(launch, fill_floats_kernel<__half>, dim3(kFillBlocks), 256, 0, static_cast<__half*>(out), n, seed,
                   mean, spread);
    case Format::kBF16:
      return start(launch, fill_floats_kernel<__nv_bfloat16>, dim3(kFillBlocks), 256, 0,
                   static_cast<__nv_bfloat16*>(out), n, seed, mean, spread);
    default:
      return start(launch, fill_floats_kernel<float>, dim3(kFillBlocks), 256, 0, static_cast<float*>(out), n, seed,
                   mean, spread);
  }
}

}  // namespace fathom::cuda
