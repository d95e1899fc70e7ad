// Blocks of 32 values with one scale.
#include <algorithm>
#include <cmath>

#include "core/scalar.h"
#include "quant/quantize_impl.h"
#include "quant/rounding.h"

namespace fathom {

// Eight bits leave nothing to search for: the largest magnitude becomes 127.
void quantize_block(const float* x, const float* /*w*/, BlockQ8_0& block) noexcept {
  float amax = 0.0F;
  for (int j = 0; j < kBlock; ++j) {
    amax = std::max(amax, std::fabs(x[j]));
  }
  block.d = f32_to_f16(amax / 127.0F);
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kBlock; ++j) {
    block.qs[j] = static_cast<int8_t>(d > 0.0F ? round_to_code(x[j] / d, -127, 127) : 0);
  }
}

}  // namespace fathom
