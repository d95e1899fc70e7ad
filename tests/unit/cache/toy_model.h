// Stands in for forward(): stores a 64-bit hash in every cache row, exactly where a model would store numbers, and
// gives for each row of a step the hash of everything that row may see. expected_outputs() computes the same from the
// tokens alone, so any row that is stale, lost, misplaced or of another sequence changes an output.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_batch.h"
#include "support/fake_ops.h"

namespace fathom {

// Small rows, all kinds of layers, a window that is no power of two.
[[nodiscard]] ModelConfig toy_config();

// `tokens` of all rows of the step.
[[nodiscard]] std::vector<uint64_t> run_toy_step(FakeOps& ops, std::span<const SequenceSlice> slices,
                                                 std::span<const TokenId> tokens);

// Outputs of the rows from `first` on of a sequence that starts with `tokens`.
[[nodiscard]] std::vector<uint64_t> expected_outputs(const CacheLayout& layout, std::span<const TokenId> tokens,
                                                     int first);

}  // namespace fathom
