// The packed six-bit scales of the K formats (layouts: weights/blocks.h), read and written.
#pragma once

#include <cstdint>

namespace fathom {

struct ScaleMin {
  int scale;  // 0 to 63
  int min;    // 0 to 63
};

// Scale and min of sub-block s of a Q4_K or Q5_K block, 0 <= s < 8.
[[nodiscard]] constexpr ScaleMin k_scale_min(const uint8_t (&packed)[12], int s) {
  if (s < 4) {
    return {packed[s] & 63, packed[s + 4] & 63};
  }
  const int low = packed[s + 4];
  return {(low & 0xF) | packed[s - 4] >> 6 << 4, low >> 4 | packed[s] >> 6 << 4};
}

// `packed` starts as zeros; each sub-block is set once.
constexpr void set_k_scale_min(uint8_t (&packed)[12], int s, ScaleMin value) {
  const auto scale = static_cast<unsigned>(value.scale);
  const auto min = static_cast<unsigned>(value.min);
  const auto set = [&packed](int i, unsigned bits) { packed[i] = static_cast<uint8_t>(packed[i] | bits); };
  if (s < 4) {
    set(s, scale);
    set(s + 4, min);
  } else {
    set(s + 4, (scale & 0xFU) | (min & 0xFU) << 4);
    set(s - 4, scale >> 4 << 6);
    set(s, min >> 4 << 6);
  }
}

// Scale of sub-block s of a Q3_K block, -32 to 31, 0 <= s < 16.
[[nodiscard]] constexpr int q3_k_scale(const uint8_t (&packed)[12], int s) {
  const int low = (packed[s % 8] >> (s / 8 * 4)) & 0xF;
  const int high = (packed[8 + s % 4] >> (s / 4 * 2)) & 3;
  return (low | high << 4) - 32;
}

// `packed` starts as zeros; each sub-block is set once.
constexpr void set_q3_k_scale(uint8_t (&packed)[12], int s, int scale) {
  const auto code = static_cast<unsigned>(scale + 32);
  packed[s % 8] = static_cast<uint8_t>(packed[s % 8] | (code & 0xFU) << (s / 8 * 4));
  packed[8 + s % 4] = static_cast<uint8_t>(packed[8 + s % 4] | (code >> 4) << (s / 4 * 2));
}

}  // namespace fathom
