// Blocks of 32 values with one scale.
#include <array>
#include <bit>

#include "core/scalar.h"
#include "weights/dequantize_impl.h"

namespace fathom {
namespace {

constexpr int kHalf = kBlock / 2;

// Fifth bits of the values j and j + 16 of a Q5 block, in place (16 or 0).
struct HighBits {
  int first;
  int second;
};
HighBits high_bits(const uint8_t (&qh)[4], int j) {
  const int first = (qh[j / 8] >> (j % 8)) & 1;
  const int second = (qh[2 + j / 8] >> (j % 8)) & 1;
  return {first << 4, second << 4};
}

}  // namespace

void dequantize_block(const BlockQ4_0& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kHalf; ++j) {
    out[j] = static_cast<float>((block.qs[j] & 0xF) - 8) * d;
    out[j + kHalf] = static_cast<float>((block.qs[j] >> 4) - 8) * d;
  }
}

void dequantize_block(const BlockQ4_1& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  for (int j = 0; j < kHalf; ++j) {
    out[j] = static_cast<float>(block.qs[j] & 0xF) * d + m;
    out[j + kHalf] = static_cast<float>(block.qs[j] >> 4) * d + m;
  }
}

void dequantize_block(const BlockQ5_0& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kHalf; ++j) {
    const HighBits high = high_bits(block.qh, j);
    out[j] = static_cast<float>(((block.qs[j] & 0xF) | high.first) - 16) * d;
    out[j + kHalf] = static_cast<float>(((block.qs[j] >> 4) | high.second) - 16) * d;
  }
}

void dequantize_block(const BlockQ5_1& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  for (int j = 0; j < kHalf; ++j) {
    const HighBits high = high_bits(block.qh, j);
    out[j] = static_cast<float>((block.qs[j] & 0xF) | high.first) * d + m;
    out[j + kHalf] = static_cast<float>((block.qs[j] >> 4) | high.second) * d + m;
  }
}

void dequantize_block(const BlockQ8_0& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kBlock; ++j) {
    out[j] = static_cast<float>(block.qs[j]) * d;
  }
}

// Doubled integer values times half the scale, as ggml does it: negative zero does not occur, and the code 0xFF, NaN in
// E8M0, is 2^128 here.
void dequantize_block(const BlockMXFP4& block, float* out) noexcept {
  constexpr std::array<int8_t, 16> kDoubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t bits = block.e < 2 ? 0x00200000U << block.e : static_cast<uint32_t>(block.e - 1) << 23;
  const auto half_scale = std::bit_cast<float>(bits);
  for (int j = 0; j < kHalf; ++j) {
    out[j] = static_cast<float>(kDoubled[block.qs[j] & 0xF]) * half_scale;
    out[j + kHalf] = static_cast<float>(kDoubled[block.qs[j] >> 4]) * half_scale;
  }
}

}  // namespace fathom
