// One safetensors tensor, with its scales where it has them, as matrices. Private to weights/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/weight.h"
#include "safetensors/safetensors_model.h"

namespace fathom {

// One matrix, or as many as a stack holds.
struct SafetensorsMatrices {
  Weight shape;  // dtype and dimensions of each; name and slices are not set
  std::vector<WeightSlice> slices;
};

// Scales are those of `entry` by name; they are required for quantised types and refused for others. Throws kBadModel,
// kUnsupported.
[[nodiscard]] SafetensorsMatrices read_matrices(const SafetensorsModel& model, const SafetensorsModel::Entry& entry);

// The tensor that holds the scales of `weight_name`, or nullptr.
[[nodiscard]] const SafetensorsModel::Entry* find_scales(const SafetensorsModel& model, const std::string& weight_name);

// Rows (or columns) that share a scale when `n` of them have `n_scales`: the power of two b with ceil(n / b) =
// n_scales, where 128 wins if all share one. nullopt: there is none.
[[nodiscard]] std::optional<int> scale_block(uint64_t n, uint64_t n_scales);

}  // namespace fathom
