// Search for NaN among the scales of a weight. Not part of opening a model: it reads every scale, gigabytes of a large
// one. Conversion and verification call it.
#pragma once

#include "core/weight.h"

namespace fathom {

// E8M0 scales held apart (kF8_E4M3, kF4_E2M1) or inside blocks (kMXFP4); other types pass. Throws kBadModel.
void check_scales(const Weight& weight);

}  // namespace fathom
