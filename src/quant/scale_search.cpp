#include "quant/scale_search.h"

#include <algorithm>
#include <limits>

namespace fathom {
namespace {

struct Candidate {
  AffineFit fit;
  double error = std::numeric_limits<double>::infinity();
};

// Rounds x to codes with `guess`, then the scale and minimum that suit these codes best.
Candidate improve(std::span<const float> x, const float* w, int max_code, bool min_is_negative,
                  const AffineFit& guess) {
  const float inverse = 1.0F / guess.scale;
  double sw = 0.0, sx = 0.0, sxx = 0.0, sq = 0.0, sqq = 0.0, sxq = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    // Differences from the guess's minimum keep the sums small when the values lie far from zero.
    const float above_min = x[i] - guess.min;
    const double q = round_to_code(above_min * inverse, 0, max_code);
    const double v = above_min;
    const double wv = w[i] * v;
    const double wq = w[i] * q;
    sw += w[i];
    sx += wv;
    sxx += wv * v;
    sq += wq;
    sqq += wq * q;
    sxq += wv * q;
  }
  const double determinant = sw * sqq - sq * sq;
  double scale = determinant > 0.0 ? (sw * sxq - sq * sx) / determinant : 0.0;
  double shift = determinant > 0.0 ? (sqq * sx - sq * sxq) / determinant : sx / sw;
  if (min_is_negative && guess.min + shift > 0.0) {
    shift = -guess.min;
    scale = sqq > 0.0 ? (sxq - shift * sq) / sqq : 0.0;
  }
  scale = std::max(scale, 0.0);
  Candidate result;
  result.fit = {static_cast<float>(scale), static_cast<float>(guess.min + shift)};
  result.error = sxx + scale * scale * sqq + shift * shift * sw - 2.0 * (scale * sxq + shift * sx - scale * shift * sq);
  return result;
}

}  // namespace

AffineFit fit_affine(std::span<const float> x, const float* w, int max_code, bool min_is_negative) noexcept {
  const auto [lowest, highest] = std::minmax_element(x.begin(), x.end());
  const float lo = min_is_negative ? std::min(*lowest, 0.0F) : *lowest;
  const float range = *highest - lo;
  if (!(range > 0.0F)) {
    return {0.0F, lo};
  }
  Candidate best;
  const auto top = static_cast<float>(max_code);
  const auto consider = [&](float target) {
    const Candidate candidate = improve(x, w, max_code, min_is_negative, {range / target, lo});
    if (candidate.error < best.error) {
      best = candidate;
    }
  };
  for (int tenth = 9; tenth >= -9; --tenth) {
    consider(top + static_cast<float>(tenth) * 0.1F);
  }
  for (int target = max_code - 1; target > max_code / 2; --target) {
    consider(static_cast<float>(target));
  }
  for (int round = 0; round < 3 && best.fit.scale > 0.0F; ++round) {
    const Candidate candidate = improve(x, w, max_code, min_is_negative, best.fit);
    if (!(candidate.error < best.error)) {
      break;
    }
    best = candidate;
  }
  return best.fit;
}

}  // namespace fathom
