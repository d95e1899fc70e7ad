#include "backend/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fathom {

std::vector<float> rope_frequencies(const ModelConfig& config, bool compressed_layer) {
  const int pairs = config.rope_dim / 2;
  const double dim = config.rope_dim;
  const double theta = compressed_layer ? config.compress_rope_theta : config.rope_theta;
  std::vector<float> f(static_cast<size_t>(pairs));
  for (int i = 0; i < pairs; ++i) {
    f[static_cast<size_t>(i)] = static_cast<float>(std::pow(theta, -2.0 * i / dim));
  }
  if (!compressed_layer) {
    return f;
  }

  // YaRN: pairs that turn fewer than beta_slow times over the original context are interpolated by `factor`, those that
  // turn more than beta_fast times are kept, with a linear ramp over the pair index between.
  const YarnParams& yarn = config.yarn;
  const auto pair_of = [&](double turns) {
    return dim * std::log(yarn.original_context / (2.0 * std::numbers::pi * turns)) / (2.0 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_of(yarn.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair_of(yarn.beta_slow)), dim - 1.0);
  if (low == high) {
    high += 0.001;
  }
  for (int i = 0; i < pairs; ++i) {
    float& fi = f[static_cast<size_t>(i)];
    const auto ramp = static_cast<float>(std::clamp((i - low) / (high - low), 0.0, 1.0));
    fi = (fi / yarn.factor) * ramp + fi * (1.0F - ramp);
  }
  return f;
}

Rotation rope_rotation(int position, float frequency) {
  const float angle = static_cast<float>(position) * frequency;
  return {static_cast<float>(std::cos(static_cast<double>(angle))),
          static_cast<float>(std::sin(static_cast<double>(angle)))};
}

}  // namespace fathom
