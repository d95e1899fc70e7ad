#include "cli/bench_work.h"

#include <cmath>

#include "quant/recipe.h"
#include "weights/names.h"
#include "weights/weight_size.h"
#include "weights/weight_source.h"

namespace fathom::cli {

TokenWork count_work(const WeightSource& source, const ModelConfig& config, int sequences) {
  const double per_row = static_cast<double>(config.n_experts_used) / config.n_experts;
  const double touched = 1.0 - std::pow(1.0 - per_row, sequences);
  TokenWork work;
  double step_bytes = 0.0;
  for (const Weight& w : source.tensors()) {
    const std::optional<TensorClass> tensor_class = classify_tensor(w.name);
    if (!tensor_class || is_side_tensor(w.name, config.n_layers)) {
      continue;  // of a module that does not run
    }
    const auto bytes = static_cast<double>(weight_bytes(w));
    const double operations = 2.0 * static_cast<double>(weight_elements(w));
    switch (*tensor_class) {
      case TensorClass::kEmbedding:
      case TensorClass::kIdTable:
        work.weight_bytes += bytes / w.out_dim;
        break;
      case TensorClass::kExperts:
        step_bytes += bytes * touched;
        work.operations += operations * per_row;
        break;
      case TensorClass::kOutput:
        step_bytes += bytes;
        break;
      default:
        step_bytes += bytes;
        work.operations += operations;
        break;
    }
  }
  work.weight_bytes += step_bytes / sequences;
  return work;
}

}  // namespace fathom::cli
