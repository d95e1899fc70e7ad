// IQ4 formats: scaled values among 16 uneven levels.
#include "quant/iq4_levels.h"
#include "quant/quantize_impl.h"
#include "quant/super_block.h"

namespace fathom {
namespace {

void put_levels(const float* x, float scale, uint8_t* qs) {
  const float inverse = inverse_or_zero(scale);
  for (int j = 0; j < 16; ++j) {
    qs[j] = static_cast<uint8_t>(Iq4Levels::code(x[j] * inverse) | Iq4Levels::code(x[j + 16] * inverse) << 4);
  }
}

}  // namespace

void quantize_block(const float* x, const float* w, BlockIQ4_NL& block) noexcept {
  block.d = f32_to_f16(fit_scale(std::span(x, kBlock), w, Iq4Levels{}, kIq4TargetStep));
  put_levels(x, f16_to_f32(block.d), block.qs);
}

void quantize_block(const float* x, const float* w, BlockIQ4_XS& block) noexcept {
  const SignedSuperBlock fit = fit_signed_super_block(x, w, Iq4Levels{}, kIq4TargetStep, {32, -32, 31});
  block.d = fit.d;
  const float d = f16_to_f32(fit.d);
  for (int s = 0; s < 8; ++s) {
    const int scale = fit.scales[static_cast<size_t>(s)];
    const int code = scale + 32;
    block.scales_l[s / 2] = static_cast<uint8_t>(block.scales_l[s / 2] | (code & 0xF) << (s % 2 * 4));
    block.scales_h = static_cast<uint16_t>(block.scales_h | (code >> 4) << (2 * s));
    put_levels(x + 32 * s, d * static_cast<float>(scale), block.qs + 16 * s);
  }
}

}  // namespace fathom
