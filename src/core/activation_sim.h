// Rounding of activations as the model was trained with it: FP8 (E4M3) in groups of 64 for the non-rotary part of KV
// rows; Hadamard rotation and FP4 (E2M1) in groups of 32 for the indexer's queries and keys. Scales are powers of two.
// Groups are consecutive, the last may be shorter. All arithmetic is float32 and every rounding is specified, so that
// backends can match these functions bit for bit.
//
// A group that holds a NaN or an infinity gets the scale code 0xFF and decodes to NaN throughout.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fathom {

inline constexpr int kFp8Group = 64;
inline constexpr int kFp4Group = 32;

[[nodiscard]] constexpr int group_count(int n, int group) { return (n + group - 1) / group; }

// E8M0 code of 2^ceil(log2(amax * fp32(1 / largest))), read off the product's bits: the smallest scale that brings amax
// within `largest`, the format's greatest value. Precondition: amax is not so small that the product is subnormal.
[[nodiscard]] constexpr uint8_t power_of_two_scale(float amax, float largest) {
  const float t = amax * (1.0F / largest);
  const auto bits = std::bit_cast<uint32_t>(t);
  const uint32_t code = (bits >> 23) + ((bits & 0x007FFFFFU) != 0 ? 1U : 0U);
  return static_cast<uint8_t>(code < 0xFFU ? code : 0xFFU);
}

// E8M0 code of one group's scale: power_of_two_scale of its largest magnitude, which counts as at least 1e-4 (FP8) or
// 6 * 2^-126 (FP4).
[[nodiscard]] uint8_t fp8_group_scale(std::span<const float> group) noexcept;
[[nodiscard]] uint8_t fp4_group_scale(std::span<const float> group) noexcept;

// codes: one byte a value. scales: group_count(n, kFp8Group) E8M0 codes.
void fp8_quantize(std::span<const float> x, std::span<std::byte> codes, std::span<std::byte> scales) noexcept;
void fp8_dequantize(std::span<const std::byte> codes, std::span<const std::byte> scales, std::span<float> x) noexcept;
// Quantise and back, in place. Doing it twice changes nothing.
void fp8_simulate(std::span<float> x) noexcept;

// codes: two values a byte, the first in the low nibble, (n + 1) / 2 bytes. scales: group_count(n, kFp4Group).
void fp4_quantize(std::span<const float> x, std::span<std::byte> codes, std::span<std::byte> scales) noexcept;
void fp4_dequantize(std::span<const std::byte> codes, std::span<const std::byte> scales, std::span<float> x) noexcept;
void fp4_simulate(std::span<float> x) noexcept;

// Length of a rotated vector: the next power of two. A vector of another length is padded with zeros before the
// rotation and keeps the longer length after it: cutting it back would change dot products, padding does not.
[[nodiscard]] constexpr int hadamard_size(int n) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))); }

// Orthonormal Walsh-Hadamard transform in natural order, in place: H[a][b] = (-1)^popcount(a & b) * n^(-1/2). Sums are
// taken in stages of distance 1, 2, 4, ..., then one multiplication. Precondition: the length is a power of two.
void hadamard(std::span<float> x) noexcept;

}  // namespace fathom
