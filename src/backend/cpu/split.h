// CpuOps::split, shared by the files that define its ops.
#pragma once

#include "backend/cpu/cpu_ops.h"

namespace fathom::cpu {

// Reading this much takes about as long as waking a worker: less is done where it is.
inline constexpr size_t kSerialBytes = 64 * 1024;

[[nodiscard]] inline size_t matrix_bytes(DeviceMat<const float> m) {
  return static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()) * sizeof(float);
}

template <class Body>
void CpuOps::split(int64_t n, size_t work_bytes, Body&& body) {
  if (n < 2 || work_bytes < kSerialBytes || pool_.threads() == 1) {
    if (n > 0) {
      body(Range{0, n}, 0);
    }
    return;
  }
  pool_.parallel_for(n, body);
}

}  // namespace fathom::cpu
