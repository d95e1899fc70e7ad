// Conversions between float32 and the narrow number formats of weights and cache rows. Portable, exact, usable at
// compile time; a raw code is the format's own bit pattern. To float32 every conversion is exact. From float32 they
// round to nearest, ties to the even code.
//
//   format   bits s/e/m  bias  largest   special codes
//   F16      1/5/10      15    65504     exponent 31: infinity, NaN
//   BF16     1/8/7       127   3.39e38   exponent 255: infinity, NaN
//   E4M3     1/4/3       7     448       0x7F, 0xFF: NaN; no infinity ("FN")
//   E8M0     0/8/0       127   2^127     0xFF: NaN; no zero, no sign
//   E2M1     1/2/1       1     6         none
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace fathom {

inline constexpr float kE4M3Max = 448.0F;
inline constexpr float kE2M1Max = 6.0F;
inline constexpr uint8_t kE4M3Nan = 0x7F;
inline constexpr uint8_t kE8M0Nan = 0xFF;

// What becomes of a value beyond the largest finite one, infinity included.
enum class Overflow : uint8_t { kNan, kSaturate };

namespace detail {

inline constexpr uint32_t kF32Sign = 0x80000000U;
inline constexpr uint32_t kF32Infinity = 0x7F800000U;
inline constexpr uint32_t kF32Quiet = 0x00400000U;

// Value times 2^-shift, to nearest, ties to even. 0 < shift < 32, and value must leave room for the carry.
[[nodiscard]] constexpr uint32_t shift_right_to_even(uint32_t value, int shift) {
  const uint32_t odd = (value >> shift) & 1U;
  return (value + (1U << (shift - 1)) - 1U + odd) >> shift;
}

// Magnitude of a finite float32, rounded to a format with `mantissa_bits` and exponent bias `bias`: the format's code
// as if its exponent had no upper end, so that a too large value gives a code above the largest valid one. Codes count
// through subnormals, exponents and the carry between them, hence one rounding of one integer serves all cases.
[[nodiscard]] constexpr uint32_t round_magnitude(uint32_t f32_magnitude, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(f32_magnitude >> 23) - 127 + bias;  // in the target; < 1: subnormal there
  const int shift = 23 - mantissa_bits;
  if (exponent >= 1) {
    const uint32_t rebiased = f32_magnitude - (static_cast<uint32_t>(127 - bias) << 23);
    return shift_right_to_even(rebiased, shift);
  }
  const int extra = 1 - exponent;
  if (shift + extra > 24) {
    return 0;  // below half of the smallest subnormal
  }
  const uint32_t significand = (f32_magnitude & 0x007FFFFFU) | 0x00800000U;
  return shift_right_to_even(significand, shift + extra);
}

}  // namespace detail

// --- F16 -----------------------------------------------------------------------------------------------------------

[[nodiscard]] constexpr float f16_to_f32(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000U) << 16;
  const uint32_t exponent = (code >> 10) & 0x1FU;
  const uint32_t mantissa = code & 0x3FFU;
  if (exponent == 0x1F) {
    const uint32_t quiet = mantissa == 0 ? 0 : detail::kF32Quiet;
    return std::bit_cast<float>(sign | detail::kF32Infinity | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

// Too large values become infinity; a NaN stays one, quiet, with the upper bits of its payload.
[[nodiscard]] constexpr uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits & detail::kF32Sign) >> 16);
  const uint32_t magnitude = bits & ~detail::kF32Sign;
  if (magnitude > detail::kF32Infinity) {
    return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  }
  const uint32_t code = detail::round_magnitude(magnitude, 10, 15);
  return static_cast<uint16_t>(sign | (code < 0x7C00U ? code : 0x7C00U));
}

// --- BF16 ----------------------------------------------------------------------------------------------------------

[[nodiscard]] constexpr float bf16_to_f32(uint16_t code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
}

[[nodiscard]] constexpr uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & ~detail::kF32Sign) > detail::kF32Infinity) {
    return static_cast<uint16_t>((bits | detail::kF32Quiet) >> 16);
  }
  return static_cast<uint16_t>(detail::shift_right_to_even(bits, 16));
}

// --- E4M3 ----------------------------------------------------------------------------------------------------------

[[nodiscard]] constexpr float e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80U) << 24;
  const uint32_t magnitude = code & 0x7FU;
  if (magnitude == kE4M3Nan) {
    return std::bit_cast<float>(sign | detail::kF32Infinity | detail::kF32Quiet);
  }
  if (magnitude < 8) {
    const float subnormal = static_cast<float>(magnitude) * 0x1p-9F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + ((127U - 7U) << 23)));
}

// Beyond the largest means: would round to 480, which is where the NaN code lies; 464 still rounds to 448.
[[nodiscard]] constexpr uint8_t f32_to_e4m3(float value, Overflow overflow = Overflow::kSaturate) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits & detail::kF32Sign) >> 24);
  const uint32_t magnitude = bits & ~detail::kF32Sign;
  if (magnitude > detail::kF32Infinity) {
    return static_cast<uint8_t>(sign | kE4M3Nan);
  }
  const uint32_t code = detail::round_magnitude(magnitude, 3, 7);
  if (code >= kE4M3Nan) {
    return static_cast<uint8_t>(sign | (overflow == Overflow::kNan ? kE4M3Nan : kE4M3Nan - 1U));
  }
  return static_cast<uint8_t>(sign | code);
}

// --- E8M0 ----------------------------------------------------------------------------------------------------------

[[nodiscard]] constexpr float e8m0_to_f32(uint8_t code) {
  if (code == kE8M0Nan) {
    return std::bit_cast<float>(detail::kF32Infinity | detail::kF32Quiet);
  }
  return std::bit_cast<float>(code == 0 ? 0x00400000U : static_cast<uint32_t>(code) << 23);  // 2^-127 is a subnormal
}

// The nearest power of two. Values below 2^-127, zero included, give 2^-127; what no code can stand for (negative,
// infinite, NaN, more than 1.5 * 2^127) gives NaN.
[[nodiscard]] constexpr uint8_t f32_to_e8m0(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (bits >= detail::kF32Infinity) {
    return (bits << 1) == 0 ? 0 : kE8M0Nan;  // -0 is zero
  }
  if (bits < 0x00800000U) {
    return bits > 0x00600000U ? 1 : 0;  // between 2^-127 and 2^-126; the tie goes to the even code 0
  }
  return static_cast<uint8_t>(detail::shift_right_to_even(bits, 23));
}

// --- E2M1 ----------------------------------------------------------------------------------------------------------

inline constexpr std::array<float, 16> kE2M1Values = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// Only the low four bits of `code` count.
[[nodiscard]] constexpr float e2m1_to_f32(uint8_t code) { return kE2M1Values[code & 0xFU]; }

// Saturates. NaN, which the format lacks, gives 6, as the hardware conversion does.
[[nodiscard]] constexpr uint8_t f32_to_e2m1(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & ~detail::kF32Sign;
  if (magnitude > detail::kF32Infinity) {
    return 7;
  }
  const auto sign = static_cast<uint8_t>((bits & detail::kF32Sign) >> 28);
  const uint32_t code = detail::round_magnitude(magnitude, 1, 1);
  return static_cast<uint8_t>(sign | (code < 7U ? code : 7U));
}

}  // namespace fathom
