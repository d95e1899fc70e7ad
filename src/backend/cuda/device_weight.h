// A weight as kernels read it: plain data, passed to them by value. Codes and scales lie in separate planes, each row
// contiguous and 16-byte aligned where the row's length allows, so that a warp reads whole lines.
//
//   format     codes (per row of n values)              scales             supers
//   kF32 kF16 kBF16   the values                         -                  -
//   kF8        n bytes E4M3                             F32 per block      -
//   kQ8_0      n bytes                                  F16 per 32         -
//   kMXFP4     n / 2, as the file's blocks              E8M0 per 32        -
//   kQ4_K      n / 2, as the file's blocks              16 B per 256 (*)   d, dmin (F16) per 256
//   kQ2_K      n / 4, as the file's blocks              16 B per 256 (**)  d, dmin (F16) per 256
//   kQ3_K      n / 4 low bits, then n / 8 high bits     16 B per 256 (**)  d (F16) per 256
//   kIQ2_XXS   n / 4: per 32 four grid codes, 32 signs  4 B per 256 (***)  d (F16) per 256
//
//   (*)   per 64 values: scale, min of the first 32, scale, min of the second
//   (**)  in the order of the 16-byte pieces of codes: [half of 128][16 of 32][sub-block]; Q3_K's as signed bytes
//   (***) a nibble per 32
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::cuda {

enum class Format : uint8_t { kF32, kF16, kBF16, kF8, kQ8_0, kMXFP4, kQ4_K, kQ2_K, kQ3_K, kIQ2_XXS };

// Formats whose products take activations as int8 blocks.
[[nodiscard]] constexpr bool has_integer_codes(Format f) { return f >= Format::kQ8_0; }

// Bytes of one row in each plane.
struct RowBytes {
  size_t codes = 0;
  size_t high = 0;  // Q3_K: part of `codes`' plane, after all low bits of a slice
  size_t scales = 0;
  size_t supers = 0;
};

[[nodiscard]] constexpr RowBytes row_bytes(Format f, int cols) {
  const auto n = static_cast<size_t>(cols);
  switch (f) {
    case Format::kF32:
      return {.codes = 4 * n};
    case Format::kF16:
    case Format::kBF16:
      return {.codes = 2 * n};
    case Format::kF8:
      return {.codes = n};
    case Format::kQ8_0:
      return {.codes = n, .scales = n / 16};
    case Format::kMXFP4:
      return {.codes = n / 2, .scales = n / 32};
    case Format::kQ4_K:
      return {.codes = n / 2, .scales = n / 16, .supers = n / 64};
    case Format::kQ2_K:
      return {.codes = n / 4, .scales = n / 16, .supers = n / 64};
    case Format::kQ3_K:
      return {.codes = n / 4, .high = n / 8, .scales = n / 16, .supers = n / 128};
    case Format::kIQ2_XXS:
      return {.codes = n / 4, .scales = n / 64, .supers = n / 128};
  }
  return {};
}

struct DeviceWeight {
  const uint8_t* codes = nullptr;
  const uint8_t* high = nullptr;
  const uint8_t* scales = nullptr;
  const uint8_t* supers = nullptr;
  const uint64_t* grid = nullptr;  // kIQ2_XXS: 256 entries of 8 magnitudes
  int rows = 0;
  int cols = 0;
  int scale_rows = 0;  // kF8
  int scale_cols = 0;
  Format format = Format::kF32;
  // Bytes from one slice to the next.
  size_t codes_stride = 0;
  size_t high_stride = 0;
  size_t scales_stride = 0;
  size_t supers_stride = 0;
};

}  // namespace fathom::cuda
