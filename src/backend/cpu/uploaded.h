// Weights in the forms that are no panels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/weight.h"

namespace fathom::cpu {

// kVector, kMixer: float32, [out, in].
[[nodiscard]] inline const float* vector_values(const Weight& w) {
  return static_cast<const std::vector<float>*>(w.prepared)->data();
}
// kIdTable: one row.
[[nodiscard]] inline const int32_t* id_row(const Weight& w, int row) {
  return static_cast<const std::vector<int32_t>*>(w.prepared)->data() + static_cast<ptrdiff_t>(row) * w.in_dim;
}

}  // namespace fathom::cpu
