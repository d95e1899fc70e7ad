// IQ formats: groups of 4 or 8 values taken from a grid, and the IQ4 formats with their 16 uneven levels.
#include <array>
#include <cstring>

#include "core/scalar.h"
#include "weights/dequantize_impl.h"
#include "weights/iq_grids.h"

namespace fathom {
namespace {

template <class Word>
Word load_word(const uint8_t* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// One group of magnitudes with signs.
template <size_t kWidth>
void put_signed(const std::array<int8_t, kWidth>& magnitudes, unsigned signs, float scale, float* out) {
  for (size_t i = 0; i < kWidth; ++i) {
    const float value = scale * static_cast<float>(magnitudes[i]);
    out[i] = ((signs >> i) & 1U) != 0 ? -value : value;
  }
}

void put_ternary(const std::array<int8_t, 8>& values, float delta, float scale, float* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = scale * (static_cast<float>(values[i]) + delta);
  }
}

// Nibble i, low one of a byte first.
int nibble(const uint8_t* bytes, int i) { return (bytes[i / 2] >> (i % 2 * 4)) & 0xF; }

void put_iq4(const uint8_t* qs, float scale, float* out) {
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(kIq4Values[qs[j] & 0xF]);
    out[j + 16] = scale * static_cast<float>(kIq4Values[qs[j] >> 4]);
  }
}

constexpr float kIq1Delta = 0.125F;

}  // namespace

void dequantize_block(const BlockIQ2_XXS& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 8; ++s) {
    const uint16_t* words = block.qs + 4 * s;
    const unsigned signs = words[2] | static_cast<unsigned>(words[3]) << 16;
    const float scale = d * (0.5F + static_cast<float>(signs >> 28)) * 0.25F;
    for (int g = 0; g < 4; ++g) {
      const auto index = static_cast<size_t>((words[g / 2] >> (g % 2 * 8)) & 0xFF);
      put_signed(kIq2XxsGrid[index], even_signs((signs >> (7 * g)) & 0x7FU), scale, out + 32 * s + 8 * g);
    }
  }
}

void dequantize_block(const BlockIQ2_XS& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 32; ++g) {
    const float scale = d * (0.5F + static_cast<float>(nibble(block.scales, g / 2))) * 0.25F;
    const unsigned q = block.qs[g];
    put_signed(kIq2XsGrid[q & 0x1FFU], even_signs(q >> 9), scale, out + 8 * g);
  }
}

void dequantize_block(const BlockIQ2_S& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 32; ++g) {
    const float scale = d * (0.5F + static_cast<float>(nibble(block.scales, g / 2))) * 0.25F;
    const auto index = static_cast<size_t>(block.qs[g] | ((block.qh[g / 4] >> (g % 4 * 2)) & 3) << 8);
    put_signed(kIq2SGrid[index], block.signs[g], scale, out + 8 * g);
  }
}

void dequantize_block(const BlockIQ3_XXS& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 8; ++s) {
    const auto signs = load_word<uint32_t>(block.signs + 4 * s);
    const float scale = d * (0.5F + static_cast<float>(signs >> 28)) * 0.5F;
    for (int g = 0; g < 4; ++g) {
      const unsigned group_signs = even_signs((signs >> (7 * g)) & 0x7FU);
      const uint8_t* indices = block.qs + 8 * s + 2 * g;
      float* group = out + 32 * s + 8 * g;
      put_signed(kIq3XxsGrid[indices[0]], group_signs, scale, group);
      put_signed(kIq3XxsGrid[indices[1]], group_signs >> 4, scale, group + 4);
    }
  }
}

void dequantize_block(const BlockIQ3_S& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 64; ++g) {
    const float scale = d * static_cast<float>(1 + 2 * nibble(block.scales, g / 8));
    const auto index = static_cast<size_t>(block.qs[g] | ((block.qh[g / 8] >> (g % 8)) & 1) << 8);
    put_signed(kIq3SGrid[index], static_cast<unsigned>(nibble(block.signs, g)), scale, out + 4 * g);
  }
}

void dequantize_block(const BlockIQ1_S& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 8; ++s) {
    const unsigned qh = block.qh[s];
    const float scale = d * static_cast<float>(2 * ((qh >> 12) & 7U) + 1);
    const float delta = (qh & 0x8000U) != 0 ? -kIq1Delta : kIq1Delta;
    for (int g = 0; g < 4; ++g) {
      const auto index = static_cast<size_t>(block.qs[4 * s + g] | ((qh >> (3 * g)) & 7U) << 8);
      put_ternary(kIq1Grid[index], delta, scale, out + 32 * s + 8 * g);
    }
  }
}

void dequantize_block(const BlockIQ1_M& block, float* out) noexcept {
  unsigned d_code = 0;
  for (int word = 0; word < 4; ++word) {
    d_code |= static_cast<unsigned>(load_word<uint16_t>(block.scales + 2 * word) >> 12) << (4 * word);
  }
  const float d = f16_to_f32(static_cast<uint16_t>(d_code));
  for (int g = 0; g < 32; ++g) {
    const int s = g / 2;
    const unsigned scale_code = (load_word<uint16_t>(block.scales + s / 4 * 2) >> (s % 4 * 3)) & 7U;
    const float scale = d * static_cast<float>(2 * scale_code + 1);
    const auto high = static_cast<unsigned>(nibble(block.qh, g));
    const float delta = (high & 8U) != 0 ? -kIq1Delta : kIq1Delta;
    put_ternary(kIq1Grid[block.qs[g] | (high & 7U) << 8], delta, scale, out + 8 * g);
  }
}

void dequantize_block(const BlockIQ4_NL& block, float* out) noexcept { put_iq4(block.qs, f16_to_f32(block.d), out); }

void dequantize_block(const BlockIQ4_XS& block, float* out) noexcept {
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 8; ++s) {
    const int scale = nibble(block.scales_l, s) | ((block.scales_h >> (2 * s)) & 3) << 4;
    put_iq4(block.qs + 16 * s, d * static_cast<float>(scale - 32), out + 32 * s);
  }
}

}  // namespace fathom
