// Integer codes of the quantised formats, 16 bytes of a row at a time.
//
// A chunk is what one 16-byte load of codes holds: kSegments segments of 16 values, each with one scale (and one
// minimum). value = scale * code - minimum. Segment s of chunk c covers the 16 consecutive columns that start at
// 16 * piece(c, s): K formats spread a chunk over their block, so activations are permuted to match instead.
#pragma once

#include "backend/cuda/device_weight.h"
#include "backend/cuda/kernels/common.cuh"

namespace fathom::cuda {

// Pointers to one row of one slice.
struct WeightRow {
  const uint8_t* codes;
  const uint8_t* high;
  const uint8_t* scales;
  const uint8_t* supers;
};

__device__ inline WeightRow weight_row(const DeviceWeight& w, Format format, int slice, int row) {
  const RowBytes b = row_bytes(format, w.cols);
  const auto s = static_cast<size_t>(slice);
  const auto r = static_cast<size_t>(row);
  return {w.codes + s * w.codes_stride + r * b.codes, w.high + s * w.high_stride + r * b.high,
          w.scales + s * w.scales_stride + r * b.scales, w.supers + s * w.supers_stride + r * b.supers};
}

template <Format F>
struct Chunk;

// kHasMinimum: the format subtracts one. kScalePairs: segments 2 i and 2 i + 1 share scale and 32-block.
template <>
struct Chunk<Format::kQ8_0> {
  static constexpr int kSegments = 1;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kScalePairs = false;
  uint4 codes;
  uint16_t d;

  __device__ static int piece(int chunk, int) { return chunk; }
  __device__ static int chunk_of(int piece) { return piece; }
  __device__ static int segment_of(int) { return 0; }
  __device__ static Chunk load(const WeightRow& row, int c) {
    return {load_codes(row.codes + 16 * c), __ldg(reinterpret_cast<const uint16_t*>(row.scales) + c / 2)};
  }
  __device__ void decode(const uint64_t*, uint32_t (&q)[4], float (&scale)[1], float (&)[1]) const {
    q[0] = codes.x;
    q[1] = codes.y;
    q[2] = codes.z;
    q[3] = codes.w;
    scale[0] = __half2float(__ushort_as_half(d));
  }
};

template <>
struct Chunk<Format::kMXFP4> {
  static constexpr int kSegments = 2;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kScalePairs = true;
  uint4 codes;
  uint8_t e;

  __device__ static int piece(int chunk, int segment) { return 2 * chunk + segment; }
  __device__ static int chunk_of(int piece) { return piece / 2; }
  __device__ static int segment_of(int piece) { return piece % 2; }
  __device__ static Chunk load(const WeightRow& row, int c) {
    return {load_codes(row.codes + 16 * c), __ldg(row.scales + c)};
  }
  // Twice the E2M1 values of four codes, one in the low half of each byte.
  __device__ static uint32_t values(uint32_t c) {
    const uint32_t m = c & 0x07070707U;
    const uint32_t selector = (m & 0xF) | ((m >> 4) & 0xF0) | ((m >> 8) & 0xF00) | ((m >> 12) & 0xF000);
    const uint32_t magnitude = permute_bytes(0x03020100U, 0x0C080604U, selector);
    const uint32_t negative = spread_signs(c << 4);
    return __vsub4(magnitude ^ negative, negative);
  }
  __device__ void decode(const uint64_t*, uint32_t (&q)[8], float (&scale)[2], float (&)[2]) const {
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      q[i] = values(words[i] & 0x0F0F0F0FU);
      q[4 + i] = values((words[i] >> 4) & 0x0F0F0F0FU);
    }
    scale[0] = scale[1] = 0.5F * e8m0(e);
  }
};

template <>
struct Chunk<Format::kQ4_K> {
  static constexpr int kSegments = 2;
  static constexpr bool kHasMinimum = true;
  static constexpr bool kScalePairs = false;
  uint4 codes;
  uint32_t scales;  // scale, min of the low nibbles, then of the high ones
  __half2 d;

  __device__ static int piece(int chunk, int segment) { return chunk / 2 * 4 + 2 * segment + chunk % 2; }
  __device__ static int chunk_of(int piece) { return piece / 4 * 2 + piece % 2; }
  __device__ static int segment_of(int piece) { return piece / 2 % 2; }
  __device__ static Chunk load(const WeightRow& row, int c) {
    return {load_codes(row.codes + 16 * c), __ldg(reinterpret_cast<const uint32_t*>(row.scales) + c / 2),
            __ldg(reinterpret_cast<const __half2*>(row.supers) + c / 8)};
  }
  __device__ void decode(const uint64_t*, uint32_t (&q)[8], float (&scale)[2], float (&minimum)[2]) const {
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      q[i] = words[i] & 0x0F0F0F0FU;
      q[4 + i] = (words[i] >> 4) & 0x0F0F0F0FU;
    }
    const float2 dd = __half22float2(d);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      scale[s] = dd.x * static_cast<float>((scales >> (16 * s)) & 0xFF);
      minimum[s] = dd.y * static_cast<float>((scales >> (16 * s + 8)) & 0xFF);
    }
  }
};

// Q2_K and Q3_K: chunk (block, half h, sixteen g), segment s: columns 256 block + 128 h + 32 s + 16 g.
struct TwoBitPieces {
  static constexpr int kSegments = 4;
  __device__ static int piece(int chunk, int segment) {
    return chunk / 4 * 16 + chunk / 2 % 2 * 8 + 2 * segment + chunk % 2;
  }
  __device__ static int chunk_of(int piece) { return piece / 16 * 4 + piece / 8 % 2 * 2 + piece % 2; }
  __device__ static int segment_of(int piece) { return piece / 2 % 4; }
};

template <>
struct Chunk<Format::kQ2_K> : TwoBitPieces {
  static constexpr bool kHasMinimum = true;
  static constexpr bool kScalePairs = false;
  uint4 codes;
  uint32_t scales;
  __half2 d;

  __device__ static Chunk load(const WeightRow& row, int c) {
    Chunk k;
    k.codes = load_codes(row.codes + 16 * c);
    k.scales = __ldg(reinterpret_cast<const uint32_t*>(row.scales) + c);
    k.d = __ldg(reinterpret_cast<const __half2*>(row.supers) + c / 4);
    return k;
  }
  __device__ void decode(const uint64_t*, uint32_t (&q)[16], float (&scale)[4], float (&minimum)[4]) const {
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    const float2 dd = __half22float2(d);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        q[4 * s + i] = (words[i] >> (2 * s)) & 0x03030303U;
      }
      scale[s] = dd.x * static_cast<float>((scales >> (8 * s)) & 0xF);
      minimum[s] = dd.y * static_cast<float>((scales >> (8 * s + 4)) & 0xF);
    }
  }
};

template <>
struct Chunk<Format::kQ3_K> : TwoBitPieces {
  static constexpr bool kHasMinimum = false;
  static constexpr bool kScalePairs = false;
  uint4 codes;
  uint4 high;
  uint32_t scales;
  int half_block;  // which bits of `high`: 4 half_block + segment
  uint16_t d;

  __device__ static Chunk load(const WeightRow& row, int c) {
    Chunk k;
    k.codes = load_codes(row.codes + 16 * c);
    k.high = __ldg(reinterpret_cast<const uint4*>(row.high) + c / 4 * 2 + c % 2);
    k.scales = __ldg(reinterpret_cast<const uint32_t*>(row.scales) + c);
    k.half_block = c / 2 % 2;
    k.d = __ldg(reinterpret_cast<const uint16_t*>(row.supers) + c / 4);
    return k;
  }
  __device__ void decode(const uint64_t*, uint32_t (&q)[16], float (&scale)[4], float (&)[4]) const {
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    const uint32_t bits[4] = {high.x, high.y, high.z, high.w};
    const float dd = __half2float(__ushort_as_half(d));
#pragma unroll
    for (int s = 0; s < 4; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t low = (words[i] >> (2 * s)) & 0x03030303U;
        const uint32_t third = (bits[i] >> (4 * half_block + s)) & 0x01010101U;
        q[4 * s + i] = __vsub4(low | third << 2, 0x04040404U);
      }
      scale[s] = dd * static_cast<float>(static_cast<int8_t>((scales >> (8 * s)) & 0xFF));
    }
  }
};

template <>
struct Chunk<Format::kIQ2_XXS> {
  static constexpr int kSegments = 4;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kScalePairs = true;
  uint4 codes;  // grid codes, signs of 32 values; the same of the next 32
  uint8_t scales;
  uint16_t d;

  __device__ static int piece(int chunk, int segment) { return 4 * chunk + segment; }
  __device__ static int chunk_of(int piece) { return piece / 4; }
  __device__ static int segment_of(int piece) { return piece % 4; }
  __device__ static Chunk load(const WeightRow& row, int c) {
    return {load_codes(row.codes + 16 * c), __ldg(row.scales + c),
            __ldg(reinterpret_cast<const uint16_t*>(row.supers) + c / 4)};
  }
  __device__ void decode(const uint64_t* grid, uint32_t (&q)[16], float (&scale)[4], float (&)[4]) const {
    const uint32_t index[2] = {codes.x, codes.z};
    const uint32_t signs[2] = {codes.y, codes.w};
    const float quarter_d = 0.25F * __half2float(__ushort_as_half(d));
#pragma unroll
    for (int b = 0; b < 2; ++b) {
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const uint2 magnitudes = reinterpret_cast<const uint2*>(grid)[(index[b] >> (8 * g)) & 0xFF];
        q[8 * b + 2 * g] = apply_signs(magnitudes.x, signs[b] << (2 * g));
        q[8 * b + 2 * g + 1] = apply_signs(magnitudes.y, signs[b] << (2 * g + 1));
      }
      scale[2 * b] = scale[2 * b + 1] = quarter_d * (0.5F + static_cast<float>((scales >> (4 * b)) & 0xF));
    }
  }
};

}  // namespace fathom::cuda
