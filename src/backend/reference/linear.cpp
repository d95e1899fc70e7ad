// Products and norms.
#include "backend/reference/math.h"
#include "backend/reference/reference_ops.h"

namespace fathom::reference {

void ReferenceOps::matmul(std::span<const Product> products, DeviceMat<const float> x) {
  for (const Product& product : products) {
    const Weight& w = *product.weight;
    const DeviceMat<float> y = product.y;
    pool_.parallel_for(w.out_dim, [&](Range range, int) {
      for (int64_t o = range.first; o < range.last; ++o) {
        const float* row = row_values(w, 0, static_cast<int>(o));
        for (int r = 0; r < x.rows(); ++r) {
          y.device_ptr()[r * y.ld() + o] = static_cast<float>(dot(row, x.device_ptr() + r * x.ld(), w.in_dim));
        }
      }
    });
  }
}

void ReferenceOps::matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) {
  const int rank = config_.o_lora_rank;
  pool_.parallel_for(w.out_dim, [&](Range range, int) {
    for (int64_t o = range.first; o < range.last; ++o) {
      const float* row = row_values(w, 0, static_cast<int>(o));
      const int64_t group = o / rank;
      for (int r = 0; r < context.rows(); ++r) {
        const float* heads = context.device_ptr() + r * context.ld() + group * w.in_dim;
        low.device_ptr()[r * low.ld() + o] = static_cast<float>(dot(row, heads, w.in_dim));
      }
    }
  });
}

void ReferenceOps::rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) {
  for (int r = 0; r < x.rows(); ++r) {
    const std::span<const float> row(x.device_ptr() + r * x.ld(), static_cast<size_t>(x.cols()));
    rms_norm_row(row, values(gain), config_.rms_eps, y.device_ptr() + r * y.ld());
  }
}

}  // namespace fathom::reference
