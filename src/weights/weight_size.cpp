#include "weights/weight_size.h"

namespace fathom {

uint64_t weight_elements(const Weight& w) noexcept {
  return static_cast<uint64_t>(w.out_dim) * static_cast<uint64_t>(w.in_dim) * static_cast<uint64_t>(w.count());
}

uint64_t weight_bytes(const Weight& w) noexcept {
  uint64_t slice = dtype_row_bytes(w.dtype, w.in_dim) * static_cast<uint64_t>(w.out_dim);
  if (w.scale_rows > 0) {
    const auto blocks = [](int n, int block) { return static_cast<uint64_t>((n + block - 1) / block); };
    slice += blocks(w.out_dim, w.scale_rows) * blocks(w.in_dim, w.scale_cols);
  }
  return slice * static_cast<uint64_t>(w.count());
}

}  // namespace fathom
