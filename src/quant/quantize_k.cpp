// K formats: blocks of 256 values in sub-blocks with scales of their own.
#include "quant/quantize_impl.h"
#include "quant/super_block.h"

namespace fathom {
namespace {

void set_bits(uint8_t& byte, int bits, int shift) { byte = static_cast<uint8_t>(byte | bits << shift); }

// Where the bits of value i go (weights/blocks.h).
void put_two_bits(uint8_t* bytes, int i, int bits) { set_bits(bytes[i / 128 * 32 + i % 32], bits, i % 128 / 32 * 2); }
void put_four_bits(uint8_t* bytes, int i, int bits) { set_bits(bytes[i / 64 * 32 + i % 32], bits, i % 64 / 32 * 4); }
void put_one_bit(uint8_t* bytes, int i, int bit) { set_bits(bytes[i % 32], bit, i / 32); }

}  // namespace

void quantize_block(const float* x, const float* w, BlockQ2_K& block) noexcept {
  const AffineSuperBlock fit = fit_affine_super_block(x, w, {16, 15, 3});
  block.d = fit.d;
  block.dmin = fit.dmin;
  for (size_t s = 0; s < 16; ++s) {
    block.scales[s] = static_cast<uint8_t>(fit.subs[s].scale | fit.subs[s].min << 4);
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    put_two_bits(block.qs, i, fit.codes[static_cast<size_t>(i)]);
  }
}

void quantize_block(const float* x, const float* w, BlockQ4_K& block) noexcept {
  const AffineSuperBlock fit = fit_affine_super_block(x, w, {32, 63, 15});
  block.d = fit.d;
  block.dmin = fit.dmin;
  for (int s = 0; s < 8; ++s) {
    set_k_scale_min(block.scales, s, fit.subs[static_cast<size_t>(s)]);
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    put_four_bits(block.qs, i, fit.codes[static_cast<size_t>(i)]);
  }
}

void quantize_block(const float* x, const float* w, BlockQ5_K& block) noexcept {
  const AffineSuperBlock fit = fit_affine_super_block(x, w, {32, 63, 31});
  block.d = fit.d;
  block.dmin = fit.dmin;
  for (int s = 0; s < 8; ++s) {
    set_k_scale_min(block.scales, s, fit.subs[static_cast<size_t>(s)]);
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    const int code = fit.codes[static_cast<size_t>(i)];
    put_four_bits(block.qs, i, code & 0xF);
    put_one_bit(block.qh, i, code >> 4);
  }
}

void quantize_block(const float* x, const float* w, BlockQ3_K& block) noexcept {
  const SignedSuperBlock fit = fit_signed_super_block(x, w, IntegerLevels{-4, 3}, 0.1F, {16, -32, 31});
  block.d = fit.d;
  const float d = f16_to_f32(fit.d);
  for (int s = 0; s < 16; ++s) {
    const int scale = fit.scales[static_cast<size_t>(s)];
    set_q3_k_scale(block.scales, s, scale);
    const float inverse = inverse_or_zero(d * static_cast<float>(scale));
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      const int code = round_to_code(x[i] * inverse, -4, 3) + 4;
      put_two_bits(block.qs, i, code & 3);
      put_one_bit(block.hmask, i, code >> 2);
    }
  }
}

void quantize_block(const float* x, const float* w, BlockQ6_K& block) noexcept {
  const SignedSuperBlock fit = fit_signed_super_block(x, w, IntegerLevels{-32, 31}, 1.0F, {16, -128, 127});
  block.d = fit.d;
  const float d = f16_to_f32(fit.d);
  for (int s = 0; s < 16; ++s) {
    const int scale = fit.scales[static_cast<size_t>(s)];
    block.scales[s] = static_cast<int8_t>(scale);
    const float inverse = inverse_or_zero(d * static_cast<float>(scale));
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      const int code = round_to_code(x[i] * inverse, -32, 31) + 32;
      set_bits(block.ql[i / 128 * 64 + i % 64], code & 0xF, i % 128 / 64 * 4);
      put_two_bits(block.qh, i, code >> 4);
    }
  }
}

}  // namespace fathom
