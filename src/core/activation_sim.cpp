#include "core/activation_sim.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/scalar.h"

namespace fathom {
namespace {

constexpr float kFp8Floor = 1e-4F;
constexpr float kFp4Floor = kE2M1Max * 0x1p-126F;

// Largest magnitude, at least `floor`. Magnitudes compare as integers, so that a NaN is larger than anything.
float largest_magnitude(std::span<const float> x, float floor) {
  auto largest = std::bit_cast<uint32_t>(floor);
  for (const float v : x) {
    largest = std::max(largest, std::bit_cast<uint32_t>(v) & 0x7FFFFFFFU);
  }
  return std::bit_cast<float>(largest);
}

// Calls visit(offset, length, group number) for each group of n values.
template <class Visit>
void for_each_group(size_t n, size_t group, Visit visit) {
  for (size_t first = 0, index = 0; first < n; first += group, ++index) {
    visit(first, std::min(group, n - first), index);
  }
}

uint8_t code_at(std::span<const std::byte> bytes, size_t i) { return std::to_integer<uint8_t>(bytes[i]); }

}  // namespace

uint8_t fp8_group_scale(std::span<const float> group) noexcept {
  return power_of_two_scale(largest_magnitude(group, kFp8Floor), kE4M3Max);
}

uint8_t fp4_group_scale(std::span<const float> group) noexcept {
  return power_of_two_scale(largest_magnitude(group, kFp4Floor), kE2M1Max);
}

void fp8_quantize(std::span<const float> x, std::span<std::byte> codes, std::span<std::byte> scales) noexcept {
  for_each_group(x.size(), kFp8Group, [&](size_t first, size_t n, size_t index) {
    const uint8_t scale_code = fp8_group_scale(x.subspan(first, n));
    const float scale = e8m0_to_f32(scale_code);
    scales[index] = std::byte{scale_code};
    for (size_t i = first; i < first + n; ++i) {
      codes[i] = std::byte{f32_to_e4m3(x[i] / scale, Overflow::kSaturate)};
    }
  });
}

void fp8_dequantize(std::span<const std::byte> codes, std::span<const std::byte> scales, std::span<float> x) noexcept {
  for_each_group(x.size(), kFp8Group, [&](size_t first, size_t n, size_t index) {
    const float scale = e8m0_to_f32(code_at(scales, index));
    for (size_t i = first; i < first + n; ++i) {
      x[i] = e4m3_to_f32(code_at(codes, i)) * scale;
    }
  });
}

void fp8_simulate(std::span<float> x) noexcept {
  for_each_group(x.size(), kFp8Group, [&](size_t first, size_t n, size_t /*index*/) {
    const std::span<float> group = x.subspan(first, n);
    const float scale = e8m0_to_f32(fp8_group_scale(group));
    for (float& v : group) {
      v = e4m3_to_f32(f32_to_e4m3(v / scale, Overflow::kSaturate)) * scale;
    }
  });
}

void fp4_quantize(std::span<const float> x, std::span<std::byte> codes, std::span<std::byte> scales) noexcept {
  std::fill(codes.begin(), codes.end(), std::byte{0});
  for_each_group(x.size(), kFp4Group, [&](size_t first, size_t n, size_t index) {
    const uint8_t scale_code = fp4_group_scale(x.subspan(first, n));
    const float scale = e8m0_to_f32(scale_code);
    scales[index] = std::byte{scale_code};
    for (size_t i = first; i < first + n; ++i) {
      codes[i / 2] |= std::byte{f32_to_e2m1(x[i] / scale)} << (i % 2 * 4);
    }
  });
}

void fp4_dequantize(std::span<const std::byte> codes, std::span<const std::byte> scales, std::span<float> x) noexcept {
  for_each_group(x.size(), kFp4Group, [&](size_t first, size_t n, size_t index) {
    const float scale = e8m0_to_f32(code_at(scales, index));
    for (size_t i = first; i < first + n; ++i) {
      x[i] = e2m1_to_f32(std::to_integer<uint8_t>(codes[i / 2] >> (i % 2 * 4))) * scale;
    }
  });
}

void fp4_simulate(std::span<float> x) noexcept {
  for_each_group(x.size(), kFp4Group, [&](size_t first, size_t n, size_t /*index*/) {
    const std::span<float> group = x.subspan(first, n);
    const float scale = e8m0_to_f32(fp4_group_scale(group));
    for (float& v : group) {
      v = e2m1_to_f32(f32_to_e2m1(v / scale)) * scale;
    }
  });
}

void hadamard(std::span<float> x) noexcept {
  const size_t n = x.size();
  FATHOM_DCHECK(std::has_single_bit(n), "pad to hadamard_size() first");
  for (size_t half = 1; half < n; half *= 2) {
    for (size_t block = 0; block < n; block += 2 * half) {
      for (size_t i = block; i < block + half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(n)));
  for (float& v : x) {
    v *= scale;
  }
}

}  // namespace fathom
