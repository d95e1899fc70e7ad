// Two-level scales of the K formats (and IQ4_XS): sub-blocks get small integer scales, the block one or two F16 numbers
// that these multiply. Fit in three steps: best real scales of every sub-block; integer scales, each tried with its
// neighbours; the F16 numbers refitted by least squares to the codes that came out. The last two repeat while they
// help.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "core/scalar.h"
#include "quant/scale_search.h"
#include "weights/blocks.h"
#include "weights/k_scales.h"

namespace fathom {

inline constexpr int kRefits = 3;

// d * scale * code - dmin * min
struct AffineFormat {
  int sub_size;
  int max_scale;  // of scales and mins
  int max_code;
};

struct AffineSuperBlock {
  uint16_t d = 0;
  uint16_t dmin = 0;
  std::array<ScaleMin, 16> subs{};
  std::array<uint8_t, kSuperBlock> codes{};
  double error = std::numeric_limits<double>::infinity();
};

[[nodiscard]] AffineSuperBlock fit_affine_super_block(const float* x, const float* w,
                                                      const AffineFormat& format) noexcept;

// d * scale * level, scale from lo to hi, |lo| >= hi
struct SignedSuperBlock {
  uint16_t d = 0;
  std::array<int, 16> scales{};
  double error = std::numeric_limits<double>::infinity();
};

struct SignedFormat {
  int sub_size;
  int lo;
  int hi;
};

namespace detail {

template <class Levels>
float signed_error(std::span<const float> x, const float* w, const Levels& levels, float scale) {
  const float inverse = inverse_or_zero(scale);
  float error = 0.0F;
  for (size_t i = 0; i < x.size(); ++i) {
    const float difference = x[i] - scale * levels.nearest(x[i] * inverse);
    error += w[i] * difference * difference;
  }
  return error;
}

// Integer scales for a given d.
template <class Levels>
SignedSuperBlock choose_signed(const float* x, const float* w, const Levels& levels, const SignedFormat& format,
                               std::span<const float> fits, float d) {
  SignedSuperBlock block;
  block.d = f32_to_f16(d);
  block.error = 0.0;
  const float unit = f16_to_f32(block.d);
  const float inverse = inverse_or_zero(unit);
  for (size_t s = 0; s < fits.size(); ++s) {
    const auto first = static_cast<int>(s) * format.sub_size;
    const std::span<const float> sub(x + first, static_cast<size_t>(format.sub_size));
    const int middle = round_to_code(fits[s] * inverse, format.lo, format.hi);
    float least = std::numeric_limits<float>::infinity();
    for (int scale = std::max(middle - 1, format.lo); scale <= std::min(middle + 1, format.hi); ++scale) {
      const float error = signed_error(sub, w + first, levels, unit * static_cast<float>(scale));
      if (error < least) {
        least = error;
        block.scales[s] = scale;
      }
    }
    block.error += least;
  }
  return block;
}

// The d that suits the codes of `block` best.
template <class Levels>
float refit_signed(const float* x, const float* w, const Levels& levels, const SignedFormat& format,
                   const SignedSuperBlock& block) {
  double xl = 0.0;
  double ll = 0.0;
  const float unit = f16_to_f32(block.d);
  for (int i = 0; i < kSuperBlock; ++i) {
    const auto scale = static_cast<float>(block.scales[static_cast<size_t>(i / format.sub_size)]);
    const double level = scale * levels.nearest(x[i] * inverse_or_zero(unit * scale));
    xl += w[i] * level * x[i];
    ll += w[i] * level * level;
  }
  return ll > 0.0 ? static_cast<float>(xl / ll) : 0.0F;
}

}  // namespace detail

template <class Levels>
[[nodiscard]] SignedSuperBlock fit_signed_super_block(const float* x, const float* w, const Levels& levels,
                                                      float target_step, const SignedFormat& format) noexcept {
  std::array<float, 16> buffer{};
  const std::span<float> fits = std::span(buffer).first(static_cast<size_t>(kSuperBlock / format.sub_size));
  float extreme = 0.0F;
  for (size_t s = 0; s < fits.size(); ++s) {
    const auto first = static_cast<int>(s) * format.sub_size;
    fits[s] = fit_scale(std::span(x + first, static_cast<size_t>(format.sub_size)), w + first, levels, target_step);
    extreme = std::fabs(fits[s]) > std::fabs(extreme) ? fits[s] : extreme;
  }
  SignedSuperBlock best;
  float d = extreme / static_cast<float>(format.lo);
  for (int round = 0; round < kRefits; ++round) {
    const SignedSuperBlock block = detail::choose_signed(x, w, levels, format, fits, d);
    if (!(block.error < best.error)) {
      break;
    }
    best = block;
    d = detail::refit_signed(x, w, levels, format, best);
  }
  return best;
}

}  // namespace fathom
