// Invented weights: the bytes of any tensor of any type, valid and of a size that keeps activations finite, at the
// speed of memory. A few thousand normal values are encoded once per type and scale; tensors are pieces of that,
// shuffled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/thread_pool.h"
#include "weights/tensor_spec.h"

namespace fathom {

class RandomWeights {
 public:
  // `n_experts`: ids in tables are below it. The same seed gives the same bytes, whatever the threads.
  RandomWeights(uint64_t seed, int n_experts) : seed_(seed), n_experts_(n_experts) {}

  // Elements from one possible start of a part to the next.
  static constexpr int64_t kPieceElements = 4096;

  // The bytes of `spec` from its element `first` on; `first` is a multiple of kPieceElements, and `out` holds whole
  // blocks. Gains and scales are 1; biases, sinks and bases 0; the others have the standard deviation of
  // weight_scale().
  void fill(const TensorSpec& spec, int64_t first, std::span<std::byte> out, ThreadPool& pool);

 private:
  struct EncodedPool {
    std::vector<std::byte> bytes;
    int64_t starts = 0;  // blocks at which a piece may start
  };
  const EncodedPool& encoded(DType dtype, float scale);
  void fill_ids(const TensorSpec& spec, int64_t first, std::span<std::byte> out) const;

  uint64_t seed_;
  int n_experts_;
  std::map<std::pair<DType, float>, EncodedPool> pools_;
};

// Standard deviation of a matrix's elements: 1 / sqrt(inputs), so that a product is as large as its input; embeddings
// are of size 1.
[[nodiscard]] float weight_scale(const TensorSpec& spec);

}  // namespace fathom
