// K formats: blocks of 256 values in sub-blocks with scales of their own.
#include "core/scalar.h"
#include "weights/dequantize_impl.h"
#include "weights/k_scales.h"

namespace fathom {
namespace {

// Value i's two bits of Q2_K and Q3_K (and upper two of Q6_K).
int two_bits(const uint8_t* bytes, int i) { return (bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3; }

// Value i's four bits of Q4_K and Q5_K.
int four_bits(const uint8_t* bytes, int i) { return (bytes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 0xF; }

// Value i's one bit of Q3_K and Q5_K.
int one_bit(const uint8_t* bytes, int i) { return (bytes[i % 32] >> (i / 32)) & 1; }

}  // namespace

void dequantize_block(const BlockQ2_K& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(block.scales[s] & 0xF);
    const float min = dmin * static_cast<float>(block.scales[s] >> 4);
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      out[i] = scale * static_cast<float>(two_bits(block.qs, i)) - min;
    }
  }
}

void dequantize_block(const BlockQ3_K& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(q3_k_scale(block.scales, s));
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      out[i] = scale * static_cast<float>((two_bits(block.qs, i) | one_bit(block.hmask, i) << 2) - 4);
    }
  }
}

void dequantize_block(const BlockQ4_K& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin packed = k_scale_min(block.scales, s);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    for (int i = 32 * s; i < 32 * s + 32; ++i) {
      out[i] = scale * static_cast<float>(four_bits(block.qs, i)) - min;
    }
  }
}

void dequantize_block(const BlockQ5_K& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin packed = k_scale_min(block.scales, s);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    for (int i = 32 * s; i < 32 * s + 32; ++i) {
      out[i] = scale * static_cast<float>(four_bits(block.qs, i) | one_bit(block.qh, i) << 4) - min;
    }
  }
}

void dequantize_block(const BlockQ6_K& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(block.scales[s]);
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      const int low = (block.ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 0xF;
      out[i] = scale * static_cast<float>((low | two_bits(block.qh, i) << 4) - 32);
    }
  }
}

}  // namespace fathom
