// Encoders: float32 to every weight format. One row at a time, without state, so that callers may spread rows over
// threads and get the same bytes.
//
// `importance`, where given, weighs the squared error of each value (mean squared activations of the columns, say). Its
// numbers are finite and not negative; only their ratios within a block matter. Empty: all values count the same. Q8_0
// and the types without blocks round to nearest whatever the importance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/matrix.h"

namespace fathom {

// Encodes n values, a multiple of the type's block size; importance has n numbers or none. Throws kBadModel when a
// value has no place in the type: NaN and infinity (except in F32), magnitudes beyond the format's range, and for
// integer types anything but integers. kF8_E4M3 and kF4_E2M1 keep their scales apart: use quantize_scaled().
void quantize_row(DType dtype, const float* x, std::byte* out, int64_t n, std::span<const float> importance = {});

// Encodes a matrix as kF8_E4M3 or kF4_E2M1 with one E8M0 scale per tile of scale_rows x scale_cols, the smallest power
// of two that brings the tile within the format's range. codes: contiguous rows. scales: [ceil(rows / scale_rows),
// ceil(cols / scale_cols)]. Throws kBadModel on NaN and infinity. Precondition: kF4_E2M1 has an even number of columns.
void quantize_scaled(DType dtype, HostMat<const float> x, int scale_rows, int scale_cols, std::byte* codes,
                     std::byte* scales);

// Reorders n values of kF4_E2M1 with a scale per 32 into MXFP4 blocks: no value changes. n is a multiple of 32. (The
// scale code 0xFF, NaN in E8M0, is an ordinary power of two to readers of MXFP4; a well-formed file does not have it.)
void repack_f4_as_mxfp4(const std::byte* codes, const std::byte* scales, std::byte* out, int64_t n) noexcept;

}  // namespace fathom
