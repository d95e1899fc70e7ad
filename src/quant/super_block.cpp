#include "quant/super_block.h"

#include <algorithm>

namespace fathom {
namespace {

struct SubFit {
  ScaleMin value{0, 0};
  float error = std::numeric_limits<float>::infinity();
};

int code_of(float x, float scale_inverse, float min, int max_code) {
  return round_to_code((x + min) * scale_inverse, 0, max_code);
}

// Error of a sub-block with these integers, as the decoder would compute its values.
float affine_error(std::span<const float> x, const float* w, float scale, float min, int max_code) {
  const float inverse = inverse_or_zero(scale);
  float error = 0.0F;
  for (size_t i = 0; i < x.size(); ++i) {
    const float difference = x[i] - (scale * static_cast<float>(code_of(x[i], inverse, min, max_code)) - min);
    error += w[i] * difference * difference;
  }
  return error;
}

SubFit choose_sub(std::span<const float> x, const float* w, const AffineFormat& format, const AffineFit& fit, float d,
                  float dmin) {
  const int scale = round_to_code(fit.scale * inverse_or_zero(d), 0, format.max_scale);
  const int min = round_to_code(-fit.min * inverse_or_zero(dmin), 0, format.max_scale);
  SubFit best;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, format.max_scale); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, format.max_scale); ++m) {
      const float error = affine_error(x, w, d * static_cast<float>(s), dmin * static_cast<float>(m), format.max_code);
      if (error < best.error) {
        best = {{s, m}, error};
      }
    }
  }
  return best;
}

// Integer scales, mins and codes for given d and dmin.
AffineSuperBlock choose(const float* x, const float* w, const AffineFormat& format, std::span<const AffineFit> fits,
                        float d, float dmin) {
  AffineSuperBlock block;
  block.d = f32_to_f16(d);
  block.dmin = f32_to_f16(dmin);
  block.error = 0.0;
  const float d_unit = f16_to_f32(block.d);
  const float min_unit = f16_to_f32(block.dmin);
  for (size_t s = 0; s < fits.size(); ++s) {
    const auto first = static_cast<int>(s) * format.sub_size;
    const std::span<const float> sub(x + first, static_cast<size_t>(format.sub_size));
    const SubFit chosen = choose_sub(sub, w + first, format, fits[s], d_unit, min_unit);
    block.subs[s] = chosen.value;
    block.error += chosen.error;
    const float inverse = inverse_or_zero(d_unit * static_cast<float>(chosen.value.scale));
    const float min = min_unit * static_cast<float>(chosen.value.min);
    for (int i = first; i < first + format.sub_size; ++i) {
      block.codes[static_cast<size_t>(i)] = static_cast<uint8_t>(code_of(x[i], inverse, min, format.max_code));
    }
  }
  return block;
}

struct Units {
  float d;
  float dmin;
};

// The d and dmin that suit the codes of `block` best: a linear least squares problem of two unknowns.
Units refit(const float* x, const float* w, const AffineFormat& format, const AffineSuperBlock& block) {
  double aa = 0.0, ab = 0.0, bb = 0.0, ax = 0.0, bx = 0.0;
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleMin& sub = block.subs[static_cast<size_t>(i / format.sub_size)];
    const double a = sub.scale * block.codes[static_cast<size_t>(i)];
    const double b = -sub.min;
    aa += w[i] * a * a;
    ab += w[i] * a * b;
    bb += w[i] * b * b;
    ax += w[i] * a * x[i];
    bx += w[i] * b * x[i];
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-9 * aa * bb) {
    return {static_cast<float>((bb * ax - ab * bx) / determinant),
            static_cast<float>((aa * bx - ab * ax) / determinant)};
  }
  return {aa > 0.0 ? static_cast<float>(ax / aa) : 0.0F, f16_to_f32(block.dmin)};
}

}  // namespace

AffineSuperBlock fit_affine_super_block(const float* x, const float* w, const AffineFormat& format) noexcept {
  std::array<AffineFit, 16> buffer;
  const std::span<AffineFit> fits = std::span(buffer).first(static_cast<size_t>(kSuperBlock / format.sub_size));
  float max_scale = 0.0F;
  float max_min = 0.0F;
  for (size_t s = 0; s < fits.size(); ++s) {
    const auto first = static_cast<int>(s) * format.sub_size;
    const std::span<const float> sub(x + first, static_cast<size_t>(format.sub_size));
    fits[s] = fit_affine(sub, w + first, format.max_code, true);
    max_scale = std::max(max_scale, fits[s].scale);
    max_min = std::max(max_min, -fits[s].min);
  }
  AffineSuperBlock best;
  Units units{max_scale / static_cast<float>(format.max_scale), max_min / static_cast<float>(format.max_scale)};
  for (int round = 0; round < kRefits; ++round) {
    const AffineSuperBlock block = choose(x, w, format, fits, units.d, units.dmin);
    if (!(block.error < best.error)) {
      break;
    }
    best = block;
    units = refit(x, w, format, best);
    if (!(units.d >= 0.0F && units.dmin >= 0.0F)) {
      break;
    }
  }
  return best;
}

}  // namespace fathom
