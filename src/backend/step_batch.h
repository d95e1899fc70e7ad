// The rows of one step: prefill chunks and decode rows of many sequences, mixed. Built by cache/ and engine/, read by
// ops.
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace fathom {

// `n_rows` consecutive tokens of one sequence, at positions start, start + 1, ...
struct SequenceSlice {
  int slot = 0;                     // ring and compressor states
  std::span<const int32_t> blocks;  // block table over positions [0, start + n_rows)
  int start = 0;                    // committed positions before this step
  int first_row = 0;                // in the step
  int n_rows = 0;
};

struct StepBatch {
  std::span<const TokenId> tokens;           // [T]
  std::span<const SequenceSlice> sequences;  // ascending first_row; together they cover all rows; no slot twice
  std::span<const int32_t> logit_rows;       // rows whose logits are wanted, ascending

  [[nodiscard]] int rows() const { return static_cast<int>(tokens.size()); }
  [[nodiscard]] int n_logits() const { return static_cast<int>(logit_rows.size()); }
};

}  // namespace fathom
