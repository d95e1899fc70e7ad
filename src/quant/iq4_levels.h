// The 16 uneven levels of the IQ4 formats, for the scale search.
#pragma once

#include "weights/iq_grids.h"

namespace fathom {

inline constexpr float kIq4TargetStep = 4.0F;

struct Iq4Levels {
  // Number of the nearest level.
  [[nodiscard]] static int code(float v) {
    int below = 0;  // levels whose midpoint to the next lies below v
    for (size_t i = 0; i + 1 < kIq4Values.size(); ++i) {
      below += v > 0.5F * static_cast<float>(kIq4Values[i] + kIq4Values[i + 1]) ? 1 : 0;
    }
    return below;
  }
  [[nodiscard]] float nearest(float v) const { return static_cast<float>(kIq4Values[static_cast<size_t>(code(v))]); }
  [[nodiscard]] float lowest() const { return static_cast<float>(kIq4Values.front()); }
};

}  // namespace fathom
