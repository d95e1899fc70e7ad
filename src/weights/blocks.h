// Block formats of quantised weights, byte for byte as GGUF files hold them. A row is a sequence of blocks; a block
// holds consecutive values of the row. Fields named d, dmin and m are F16 codes. Files do not align blocks: copy one
// out of the row with load_block() instead of casting the pointer.
//
// "low/high nibbles" of qs: value j is the low nibble of byte j, value j + (half) the high nibble of the same byte.
// K formats cut a block of 256 into sub-blocks of 16 or 32 values with small integer scales of their own, IQ formats
// take 4 or 8 values at a time from a grid (weights/iq_grids.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace fathom {

inline constexpr int kBlock = 32;        // values in a block of the simple formats
inline constexpr int kSuperBlock = 256;  // values in a block of the K and IQ formats

// d * (nibble - 8)
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];  // low/high nibbles
};

// d * nibble + m
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];  // low/high nibbles
};

// d * (q - 16), q of five bits
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];   // bit j of this 32-bit word: fifth bit of value j
  uint8_t qs[16];  // low/high nibbles
};

// d * q + m, q of five bits
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];   // as Q5_0
  uint8_t qs[16];  // low/high nibbles
};

// d * q
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};

// E2M1(nibble) * 2^(e - 127)
struct BlockMXFP4 {
  uint8_t e;
  uint8_t qs[16];  // low/high nibbles
};

// d * kIq4Values[nibble]
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];  // low/high nibbles
};

// Sub-blocks of 16: d * scale * q - dmin * min, q of two bits
struct BlockQ2_K {
  uint8_t scales[16];  // low nibble: scale, high nibble: min
  uint8_t qs[64];      // value 128 h + 32 s + j: bits 2 s of byte 32 h + j
  uint16_t d;
  uint16_t dmin;
};

// Sub-blocks of 16: d * (scale - 32) * (q - 4), q of three bits, scale of six
struct BlockQ3_K {
  uint8_t hmask[32];   // value 32 s + j: bit s of byte j is the third bit
  uint8_t qs[64];      // low two bits, as Q2_K
  uint8_t scales[12];  // scale s: nibble s (low nibbles of bytes 0 to 7 first), upper bits 2 (s / 4) of byte 8 + s % 4
  uint16_t d;
};

// Eight six-bit scales and mins of Q4_K and Q5_K in 12 bytes. Byte i < 4: scale i, above it the upper two bits of scale
// i + 4. Byte 4 + i: the same for the mins. Byte 8 + i: low four bits of scale i + 4, then of min i + 4.

// Sub-blocks of 32: d * scale * q - dmin * min, q of four bits
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];  // 32 bytes for two sub-blocks: low nibbles the first, high nibbles the second
};

// Sub-blocks of 32: d * scale * q - dmin * min, q of five bits
struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];   // value 32 s + j: bit s of byte j is the fifth bit
  uint8_t qs[128];  // as Q4_K
};

// Sub-blocks of 16: d * scale * (q - 32), q of six bits
struct BlockQ6_K {
  uint8_t ql[128];  // value 128 h + 64 n + j (j < 64): nibble n of byte 64 h + j
  uint8_t qh[64];   // value 128 h + 32 s + j: bits 2 s of byte 32 h + j are the upper two
  int8_t scales[16];
  uint16_t d;
};

// Sub-blocks of 32: d * (scale - 32) * kIq4Values[nibble], scale of six bits
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;    // bits 2 s: upper two bits of scale s
  uint8_t scales_l[4];  // low four bits of the scales, low nibble first
  uint8_t qs[128];      // 16 bytes a sub-block, low/high nibbles
};

// In all IQ2 and IQ3 formats a set sign bit makes a value negative. Where only seven signs of eight values are stored,
// the eighth makes the number of negative values even.

// Sub-blocks of 32: d * (scale + 0.5) / 4 * grid
struct BlockIQ2_XXS {
  uint16_t d;
  uint16_t qs[32];  // 8 bytes a sub-block: four grid indices, then 4 x 7 sign bits and the scale in the top four bits
};

// Sub-blocks of 16: d * (scale + 0.5) / 4 * grid
struct BlockIQ2_XS {
  uint16_t d;
  uint16_t qs[32];    // of 8 values: grid index (9 bits), 7 signs
  uint8_t scales[8];  // low nibble first
};

// Sub-blocks of 16: d * (scale + 0.5) / 4 * grid
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32];     // low eight bits of the grid index of 8 values
  uint8_t signs[32];  // of 8 values
  uint8_t qh[8];      // upper two bits of four indices
  uint8_t scales[8];  // low nibble first
};

// Sub-blocks of 32: d * (scale + 0.5) / 2 * grid
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64];     // grid index of 4 values
  uint8_t signs[32];  // a 32-bit word a sub-block: 4 x 7 sign bits, the scale in the top four bits
};

// Sub-blocks of 32: d * (2 scale + 1) * grid
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64];     // low eight bits of the grid index of 4 values
  uint8_t qh[8];      // ninth bit of eight indices
  uint8_t signs[32];  // of 8 values
  uint8_t scales[4];  // low nibble first
};

// Sub-blocks of 32: d * (2 scale + 1) * (grid + delta), delta = 1/8 or -1/8
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];  // low eight bits of the grid index of 8 values
  uint16_t qh[8];  // of a sub-block: 4 x 3 upper index bits, scale (3 bits), delta's sign
};

// Sub-blocks of 16: d * (2 scale + 1) * (grid + delta); a delta for every 8 values
struct BlockIQ1_M {
  uint8_t qs[32];     // low eight bits of the grid index of 8 values
  uint8_t qh[16];     // of 8 values, low nibble first: three upper index bits, delta's sign
  uint8_t scales[8];  // four 16-bit words: 4 x 3 scale bits; the top nibbles together are d, the lowest first
};

template <class Block>
[[nodiscard]] Block load_block(const std::byte* row, int64_t index) {
  Block block;
  std::memcpy(&block, row + index * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
  return block;
}

template <class Block>
void store_block(const Block& block, std::byte* row, int64_t index) {
  std::memcpy(row + index * static_cast<int64_t>(sizeof(Block)), &block, sizeof(Block));
}

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockMXFP4) == 17);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);
static_assert(sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ2_XS) == 74 && sizeof(BlockIQ2_S) == 82);
static_assert(sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ3_S) == 110);
static_assert(sizeof(BlockIQ1_S) == 50 && sizeof(BlockIQ1_M) == 56);
static_assert(sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136);

}  // namespace fathom
