// Groups of weights that one op takes together. model/ composes them into layers. Field names are GGUF's.
#pragma once

#include <optional>

#include "core/weight.h"

namespace fathom {

struct HcWeights {
  Weight fn;     // [hc_mix, hc * d]; the head's has hc rows
  Weight base;   // [hc_mix]
  Weight scale;  // [3]: pre, post, comb; the head's has 1
};

struct CompressorWeights {
  Weight kv;    // [roles * width, d]
  Weight gate;  // [roles * width, d]
  Weight ape;   // [ratio, roles * width], added to the gate by position mod ratio
  Weight norm;  // [width]
};

struct RouterWeights {
  Weight gate;                            // [E, d]
  std::optional<Weight> bias;             // [E]: layers that choose by score
  std::optional<Weight> token_to_expert;  // [V, k] integer: layers that choose by token id
};

struct ExpertWeights {
  Weight gate;  // [F, d] x experts
  Weight up;    // [F, d] x experts
  Weight down;  // [d, F] x experts
};

}  // namespace fathom
