// What one token asks of the machine, counted from the weights: the least that decoding can read, and the arithmetic
// that prefill cannot avoid.
#pragma once

#include "core/model_config.h"

namespace fathom {
class WeightSource;
}

namespace fathom::cli {

struct TokenWork {
  double weight_bytes = 0.0;  // of a step of `sequences` rows, per row
  double operations = 0.0;    // multiplications and additions of matrix products, without the output matrix
};

// Every matrix once, and of the experts those that the rows choose: `n_experts_used` for one row, the number expected
// of rows that choose evenly for several.
[[nodiscard]] TokenWork count_work(const WeightSource& source, const ModelConfig& config, int sequences);

}  // namespace fathom::cli
