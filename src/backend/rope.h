// Rotary frequencies (docs/model.md 2.6): interleaved pairs on the last rope_dim components of a vector.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace fathom {

// f_i = theta^(-2i / rope_dim), i < rope_dim / 2; with YaRN where the layer compresses. Rounded to float32.
[[nodiscard]] std::vector<float> rope_frequencies(const ModelConfig& config, bool compressed_layer);

// cos and sin of float32(position) * frequency: one float32 product, then an exact range reduction. At a million
// positions one ulp of the angle is 0.06 rad, so a more precise product would rotate differently from the trained
// model.
struct Rotation {
  float cos;
  float sin;
};
[[nodiscard]] Rotation rope_rotation(int position, float frequency);

}  // namespace fathom
