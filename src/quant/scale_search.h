// Search for the scale (and minimum) of a group of values: x ~ scale * level, or x ~ scale * code + min. Candidates
// come from mapping the largest magnitude, or the whole range, to various places among the levels; each is improved by
// least squares on its own codes. All errors are sums of w * difference^2.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "quant/rounding.h"

namespace fathom {

// Levels lo, lo + 1, ..., hi; lo <= 0 < hi.
struct IntegerLevels {
  int lo;
  int hi;
  [[nodiscard]] float nearest(float v) const { return static_cast<float>(round_to_code(v, lo, hi)); }
  [[nodiscard]] float lowest() const { return static_cast<float>(lo); }
};

// Sums that decide how well levels fit: the best scale is xl / ll, and it lowers the error by xl^2 / ll.
// In double precision, because fits that differ little are told apart by small differences of large sums.
struct LevelSums {
  double xl = 0.0;  // sum of w * x * level
  double ll = 0.0;  // sum of w * level^2

  [[nodiscard]] double gain() const { return ll > 0.0 ? xl * xl / ll : 0.0; }
  [[nodiscard]] float scale() const { return ll > 0.0 ? static_cast<float>(xl / ll) : 0.0F; }
};

template <class Levels>
[[nodiscard]] LevelSums sum_levels(std::span<const float> x, const float* w, const Levels& levels,
                                   float inverse_scale) {
  LevelSums sums;
  for (size_t i = 0; i < x.size(); ++i) {
    const double level = levels.nearest(x[i] * inverse_scale);
    const double weighted = level * w[i];
    sums.xl += weighted * x[i];
    sums.ll += weighted * level;
  }
  return sums;
}

// The best scale found, of either sign; 0 when all values are 0. The largest magnitude is mapped to targets from a bit
// beyond the lowest level to about half of it, and the same with the opposite sign, `step` apart.
template <class Levels>
[[nodiscard]] float fit_scale(std::span<const float> x, const float* w, const Levels& levels, float step) {
  float extreme = 0.0F;
  for (const float v : x) {
    extreme = std::fabs(v) > std::fabs(extreme) ? v : extreme;
  }
  if (extreme == 0.0F) {
    return 0.0F;
  }
  LevelSums best;
  const float end = levels.lowest() * -0.6F;
  for (float target = step * std::floor(levels.lowest() * -1.15F / step); target > end; target -= step) {
    for (const float signed_target : {-target, target}) {
      const LevelSums sums = sum_levels(x, w, levels, signed_target / extreme);
      if (sums.gain() > best.gain()) {
        best = sums;
      }
    }
  }
  for (int round = 0; round < 3 && best.scale() != 0.0F; ++round) {
    const LevelSums sums = sum_levels(x, w, levels, 1.0F / best.scale());
    if (!(sums.gain() > best.gain())) {
      break;
    }
    best = sums;
  }
  return best.scale();
}

struct AffineFit {
  float scale = 0.0F;  // >= 0
  float min = 0.0F;
};

// Codes 0 to max_code. With `min_is_negative` the minimum is at most 0.
[[nodiscard]] AffineFit fit_affine(std::span<const float> x, const float* w, int max_code,
                                   bool min_is_negative) noexcept;

}  // namespace fathom
