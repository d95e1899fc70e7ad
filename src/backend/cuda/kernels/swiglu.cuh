#pragma once

#include <cuda_runtime.h>

namespace fathom::cuda {

// gate * sigmoid(gate) * up with the clamp in front: from above only for the gate. limit 0: no clamp.
__device__ inline float swiglu(float gate, float up, float limit) {
  if (limit > 0.0F) {
    gate = fminf(gate, limit);
    up = fminf(fmaxf(up, -limit), limit);
  }
  return gate / (1.0F + expf(-gate)) * up;
}

}  // namespace fathom::cuda
