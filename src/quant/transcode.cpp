#include "quant/transcode.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "quant/quantize.h"
#include "weights/check_scales.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

constexpr size_t kPieceBytes = 4 << 20;

// F4_E2M1 with scales as MXFP4 expects them: no arithmetic is needed.
bool is_repack(const Weight& w, DType target) {
  return w.dtype == DType::kF4_E2M1 && target == DType::kMXFP4 && w.scale_rows == 1 && w.scale_cols == 32;
}

bool is_copy(const Weight& w, DType target) { return w.dtype == target && w.scale_rows == 0; }

void copy_slice(const Weight& w, const WeightSlice& slice,
                const std::function<void(std::span<const std::byte>)>& write) {
  const std::span<const std::byte> bytes(slice.codes,
                                         dtype_row_bytes(w.dtype, w.in_dim) * static_cast<size_t>(w.out_dim));
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    write(bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at)));
  }
}

void repack_row(const Weight& w, const WeightSlice& slice, int row, std::byte* out) {
  const std::byte* scales = slice.scales + static_cast<size_t>(row) * static_cast<size_t>(w.in_dim / 32);
  repack_f4_as_mxfp4(slice.codes + static_cast<size_t>(row) * dtype_row_bytes(w.dtype, w.in_dim), scales, out,
                     w.in_dim);
}

// Rows [rows.first, rows.last) of one slice.
void encode_rows(const Weight& w, int slice, Range rows, DType target, std::byte* out) {
  const size_t row_bytes = dtype_row_bytes(target, w.in_dim);
  std::vector<float> values(static_cast<size_t>(w.in_dim));
  for (int64_t r = rows.first; r < rows.last; ++r, out += row_bytes) {
    const int row = static_cast<int>(r);
    try {
      if (is_repack(w, target)) {
        repack_row(w, w.slices[static_cast<size_t>(slice)], row, out);
      } else {
        dequantize_row(w, slice, row, values.data());
        quantize_row(target, values.data(), out, w.in_dim);
      }
    } catch (const Error& error) {
      const std::string part = w.count() > 1 ? fmt::format("expert {}, ", slice) : std::string();
      throw Error(error.code(), fmt::format("{}: {}row {}: {}", w.name, part, row, error.what()));
    }
  }
}

}  // namespace

uint64_t transcoded_bytes(const Weight& weight, DType target) {
  return dtype_row_bytes(target, weight.in_dim) * static_cast<uint64_t>(weight.out_dim) *
         static_cast<uint64_t>(weight.count());
}

void transcode(const Weight& weight, DType target, ThreadPool& pool,
               const std::function<void(std::span<const std::byte>)>& write) {
  FATHOM_CHECK(weight.in_dim % dtype_info(target).block_size == 0, "rows are no multiple of the target's block");
  check_scales(weight);
  const size_t row_bytes = dtype_row_bytes(target, weight.in_dim);
  const auto piece_rows = static_cast<int64_t>(std::max<size_t>(1, kPieceBytes / row_bytes));
  std::vector<std::byte> piece;
  for (int slice = 0; slice < weight.count(); ++slice) {
    if (is_copy(weight, target)) {
      copy_slice(weight, weight.slices[static_cast<size_t>(slice)], write);
      continue;
    }
    for (int64_t first = 0; first < weight.out_dim; first += piece_rows) {
      const int64_t n = std::min<int64_t>(piece_rows, weight.out_dim - first);
      piece.resize(static_cast<size_t>(n) * row_bytes);
      pool.parallel_for(n, [&](Range rows, int) {
        encode_rows(weight, slice, {first + rows.first, first + rows.last}, target,
                    piece.data() + static_cast<size_t>(rows.first) * row_bytes);
      });
      write(piece);
    }
  }
}

}  // namespace fathom
