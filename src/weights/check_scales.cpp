#include "weights/check_scales.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace fathom {
namespace {

constexpr std::byte kE8M0NaN{255};

// `n` scales, `stride` bytes apart.
void check_slice(const Weight& weight, int slice, const std::byte* scales, size_t n, size_t stride) {
  for (size_t i = 0; i < n; ++i) {
    if (scales[i * stride] == kE8M0NaN) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("{}: scale {} of matrix {} is NaN (E8M0 code 255)", weight.name, i, slice));
    }
  }
}

size_t ceil_div(int a, int b) { return (static_cast<size_t>(a) + static_cast<size_t>(b) - 1) / static_cast<size_t>(b); }

}  // namespace

void check_scales(const Weight& weight) {
  for (int i = 0; i < weight.count(); ++i) {
    const WeightSlice& slice = weight.slices[static_cast<size_t>(i)];
    if (weight.dtype == DType::kMXFP4) {
      const DTypeInfo& info = dtype_info(weight.dtype);
      const size_t n_blocks =
          static_cast<size_t>(weight.out_dim) * static_cast<size_t>(weight.in_dim / info.block_size);
      check_slice(weight, i, slice.codes, n_blocks, static_cast<size_t>(info.block_bytes));
    } else if (slice.scales != nullptr) {
      const size_t n_scales = ceil_div(weight.out_dim, weight.scale_rows) * ceil_div(weight.in_dim, weight.scale_cols);
      check_slice(weight, i, slice.scales, n_scales, 1);
    }
  }
}

}  // namespace fathom
