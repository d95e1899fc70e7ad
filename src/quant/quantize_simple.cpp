// Blocks of 32 values with one scale.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/scalar.h"
#include "quant/quantize_impl.h"
#include "quant/scale_search.h"

namespace fathom {
namespace {

constexpr int kHalf = kBlock / 2;

void put_nibbles(uint8_t* qs, int j, int first, int second) { qs[j] = static_cast<uint8_t>(first | second << 4); }

// Sets the fifth bits of values j and j + 16.
void put_high_bits(uint8_t* qh, int j, int first, int second) {
  qh[j / 8] = static_cast<uint8_t>(qh[j / 8] | (first >> 4) << (j % 8));
  qh[2 + j / 8] = static_cast<uint8_t>(qh[2 + j / 8] | (second >> 4) << (j % 8));
}

}  // namespace

void quantize_block(const float* x, const float* w, BlockQ4_0& block) noexcept {
  block.d = f32_to_f16(fit_scale(std::span(x, kBlock), w, IntegerLevels{-8, 7}, 0.2F));
  const float inverse = inverse_or_zero(f16_to_f32(block.d));
  const auto code = [&](int j) { return round_to_code(x[j] * inverse, -8, 7) + 8; };
  for (int j = 0; j < kHalf; ++j) {
    put_nibbles(block.qs, j, code(j), code(j + kHalf));
  }
}

void quantize_block(const float* x, const float* w, BlockQ5_0& block) noexcept {
  block.d = f32_to_f16(fit_scale(std::span(x, kBlock), w, IntegerLevels{-16, 15}, 0.5F));
  const float inverse = inverse_or_zero(f16_to_f32(block.d));
  const auto code = [&](int j) { return round_to_code(x[j] * inverse, -16, 15) + 16; };
  for (int j = 0; j < kHalf; ++j) {
    put_nibbles(block.qs, j, code(j) & 0xF, code(j + kHalf) & 0xF);
    put_high_bits(block.qh, j, code(j), code(j + kHalf));
  }
}

void quantize_block(const float* x, const float* w, BlockQ4_1& block) noexcept {
  const AffineFit fit = fit_affine(std::span(x, kBlock), w, 15, false);
  block.d = f32_to_f16(fit.scale);
  block.m = f32_to_f16(fit.min);
  const float inverse = inverse_or_zero(f16_to_f32(block.d));
  const float min = f16_to_f32(block.m);
  const auto code = [&](int j) { return round_to_code((x[j] - min) * inverse, 0, 15); };
  for (int j = 0; j < kHalf; ++j) {
    put_nibbles(block.qs, j, code(j), code(j + kHalf));
  }
}

void quantize_block(const float* x, const float* w, BlockQ5_1& block) noexcept {
  const AffineFit fit = fit_affine(std::span(x, kBlock), w, 31, false);
  block.d = f32_to_f16(fit.scale);
  block.m = f32_to_f16(fit.min);
  const float inverse = inverse_or_zero(f16_to_f32(block.d));
  const float min = f16_to_f32(block.m);
  const auto code = [&](int j) { return round_to_code((x[j] - min) * inverse, 0, 31); };
  for (int j = 0; j < kHalf; ++j) {
    put_nibbles(block.qs, j, code(j) & 0xF, code(j + kHalf) & 0xF);
    put_high_bits(block.qh, j, code(j), code(j + kHalf));
  }
}

// Eight bits leave nothing to search for: the largest magnitude becomes 127.
void quantize_block(const float* x, const float* /*w*/, BlockQ8_0& block) noexcept {
  float amax = 0.0F;
  for (int j = 0; j < kBlock; ++j) {
    amax = std::max(amax, std::fabs(x[j]));
  }
  block.d = f32_to_f16(amax / 127.0F);
  const float inverse = inverse_or_zero(f16_to_f32(block.d));
  for (int j = 0; j < kBlock; ++j) {
    block.qs[j] = static_cast<int8_t>(round_to_code(x[j] * inverse, -127, 127));
  }
}

}  // namespace fathom
