// A model in memory whose weights are invented (random_weights.h): for measuring shapes and types without their files.
#pragma once

#include <memory>
#include <vector>

#include "weights/tensor_spec.h"
#include "weights/weight_source.h"

namespace fathom {

class RandomWeights;
class ThreadPool;

// What a backend needs that reads weights where they are, or that makes its own copy of every one.
enum class SyntheticMemory : uint8_t {
  kOwn,     // every tensor has its own bytes
  kShared,  // matrices of one type and shape share theirs, as do the experts of a layer: the source stays small
};

// Throws kOutOfMemory. The source has no metadata: whoever made the list of tensors knows the config.
[[nodiscard]] std::unique_ptr<WeightSource> make_synthetic_source(const std::vector<TensorSpec>& tensors,
                                                                  SyntheticMemory memory, RandomWeights& weights,
                                                                  ThreadPool& pool);

}  // namespace fathom
