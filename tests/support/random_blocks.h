// Pseudo-random rows of any weight format, the same on every machine, and a hash of floats: shared by the tests and by
// tools/peer_dequant_check.cpp, which records what ggml makes of the same bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "core/scalar.h"
#include "weights/blocks.h"

namespace fathom::test {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// A finite F16 code of either sign: any magnitude, zero and subnormals included.
inline uint16_t random_f16(SplitMix64& rng) {
  const uint64_t bits = rng.next();
  return static_cast<uint16_t>((bits & 0x8000U) | (bits >> 16) % 0x7C00U);
}

// Byte offsets of the F16 fields of one block. IQ1_M has one too, but in pieces.
inline std::vector<size_t> f16_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case DType::kQ3_K:
      return {offsetof(BlockQ3_K, d)};
    case DType::kQ6_K:
      return {offsetof(BlockQ6_K, d)};
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIQ1_S:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kF16:
      return {0};
    default:
      return {};
  }
}

// Random bits made valid: every F16 and BF16 number is finite.
inline std::vector<std::byte> random_blocks(DType dtype, size_t n_blocks, uint64_t seed) {
  SplitMix64 rng(seed);
  const auto block_bytes = static_cast<size_t>(dtype_info(dtype).block_bytes);
  std::vector<std::byte> bytes(n_blocks * block_bytes);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(rng.next() & 0xFFU);
  }
  for (size_t i = 0; i < n_blocks; ++i) {
    std::byte* block = bytes.data() + i * block_bytes;
    for (const size_t offset : f16_offsets(dtype)) {
      const uint16_t code = random_f16(rng);
      std::memcpy(block + offset, &code, sizeof(code));
    }
    if (dtype == DType::kBF16) {
      block[1] &= std::byte{0xBF};  // keeps the exponent below 255
    }
    if (dtype == DType::kIQ1_M) {
      const uint16_t code = random_f16(rng);
      for (size_t word = 0; word < 4; ++word) {
        std::byte& top = block[offsetof(BlockIQ1_M, scales) + 2 * word + 1];
        top = (top & std::byte{0x0F}) | std::byte{static_cast<uint8_t>((code >> (4 * word) & 0xF) << 4)};
      }
    }
  }
  return bytes;
}

// FNV-1a over the bit patterns.
inline uint64_t hash_floats(std::span<const float> values) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((bits >> shift) & 0xFFU)) * 0x100000001B3ULL;
    }
  }
  return hash;
}

inline constexpr size_t kHashedBlocks = 4096;
inline constexpr size_t kStoredBlocks = 4;
inline constexpr uint64_t kBlockSeed = 20260813;

}  // namespace fathom::test
