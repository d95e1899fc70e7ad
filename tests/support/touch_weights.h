// Reads every byte that the weights of a source claim to have, so that a sanitizer sees a claim beyond the file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "weights/check_scales.h"
#include "weights/weight_source.h"

namespace fathom::test {

inline void touch_weights(const WeightSource& source) {
  uint64_t sum = 0;
  for (const Weight& weight : source.tensors()) {
    const size_t n_bytes = dtype_row_bytes(weight.dtype, weight.in_dim) * static_cast<size_t>(weight.out_dim);
    for (const WeightSlice& slice : weight.slices) {
      for (size_t i = 0; i < n_bytes; ++i) {
        sum += static_cast<uint64_t>(slice.codes[i]);
      }
    }
    try {
      check_scales(weight);
    } catch (const Error&) {
    }
  }
  volatile uint64_t sink = sum;  // keeps the reads
  (void)sink;
}

}  // namespace fathom::test
