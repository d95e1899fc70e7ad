// Models with invented weights, as the commands name them: a shape, how many of its layers, and the types of weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/model_config.h"
#include "weights/tensor_spec.h"

namespace fathom::cli {

struct SyntheticOptions {
  std::string shape;             // a name of model/shapes.h
  std::string experts = "Q4_K";  // T, or T/T: gate and up / down
  std::optional<DType> rest;     // unset: Q8_0, with compressors and embedding in F16
  std::optional<int> layers;     // the first ones only
};

struct SyntheticModel {
  ModelConfig config;
  std::vector<TensorSpec> tensors;
};

// Throws UsageError for a type that is none, kBadRequest for a shape or a number of layers that there is not.
[[nodiscard]] SyntheticModel plan_synthetic(const SyntheticOptions& options);

}  // namespace fathom::cli
