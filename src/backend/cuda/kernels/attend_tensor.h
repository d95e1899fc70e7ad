// The fast path of attention.
#pragma once

#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

[[nodiscard]] bool can_attend_on_tensor_cores(const AttendParams& p);
// Into how many blocks the keys of a row are split. Partial results: [rows, splits, heads, dim].
[[nodiscard]] int attend_splits(int rows, int heads, int max_keys, int multiprocessors);
void attend_on_tensor_cores(const Launch& launch, const AttendParams& p);

}  // namespace fathom::cuda
