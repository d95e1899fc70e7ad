// A weight as the file stores it: a type-erased view of one [out, in] matrix, or of a stack of them (experts).
// The bytes belong to a WeightSource (mapped file) or to a backend (after Ops::upload).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/dtype.h"

namespace fathom {

// One [out, in] matrix, rows contiguous. `scales` is set for kF8_E4M3 and kF4_E2M1 only: E8M0 bytes,
// [ceil(out / scale_rows), ceil(in / scale_cols)] row-major.
struct WeightSlice {
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
};

struct Weight {
  std::string_view name;  // canonical GGUF name; its bytes live as long as the source
  DType dtype = DType::kF32;
  int out_dim = 0;  // 1 for a vector
  int in_dim = 0;
  int scale_rows = 0;  // rows and columns that share one scale (128 x 128, 1 x 32); 0 when the type has no scales
  int scale_cols = 0;
  std::span<const WeightSlice> slices;  // 1, or one per expert
  const void* prepared = nullptr;       // backend's own form, set by Ops::upload; null before

  [[nodiscard]] int count() const { return static_cast<int>(slices.size()); }
};

}  // namespace fathom
