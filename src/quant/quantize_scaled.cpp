// FP8 and FP4 with scales held apart, and MXFP4, whose values are the same as FP4's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/activation_sim.h"
#include "core/check.h"
#include "core/error.h"
#include "core/scalar.h"
#include "quant/quantize.h"
#include "quant/quantize_impl.h"

namespace fathom {
namespace {

struct Tile {
  int row, col, rows, cols;
};

float largest_magnitude(DType dtype, HostMat<const float> x, const Tile& tile) {
  float largest = 0.0F;
  for (int r = tile.row; r < tile.row + tile.rows; ++r) {
    for (int c = tile.col; c < tile.col + tile.cols; ++c) {
      const float v = x.row(r)[static_cast<size_t>(c)];
      if (!(std::fabs(v) <= kPowerOfTwoScaledMax)) {
        throw Error(ErrorCode::kBadModel,
                    fmt::format("value [{}, {}] of the matrix is {}: {} encodes finite values up to {:g}", r, c, v,
                                dtype_info(dtype).name, kPowerOfTwoScaledMax));
      }
      largest = std::max(largest, std::fabs(v));
    }
  }
  return largest;
}

// E8M0 code for a largest magnitude, which may be zero or tiny.
uint8_t scale_code(float amax, float largest) {
  return power_of_two_scale(std::max(amax, largest * 0x1p-126F), largest);
}

void encode_tile(DType dtype, HostMat<const float> x, const Tile& tile, float scale, std::byte* codes) {
  const size_t row_bytes = dtype_row_bytes(dtype, x.cols());
  for (int r = tile.row; r < tile.row + tile.rows; ++r) {
    std::byte* row = codes + static_cast<size_t>(r) * row_bytes;
    for (int c = tile.col; c < tile.col + tile.cols; ++c) {
      const float v = x.row(r)[static_cast<size_t>(c)] / scale;
      if (dtype == DType::kF8_E4M3) {
        row[c] = std::byte{f32_to_e4m3(v, Overflow::kSaturate)};
      } else {
        row[c / 2] |= std::byte{f32_to_e2m1(v)} << (c % 2 * 4);
      }
    }
  }
}

// Weighted squared error of MXFP4 with this scale code.
float mxfp4_error(const float* x, const float* w, uint8_t code) {
  const float scale = e8m0_to_f32(code);
  float error = 0.0F;
  for (int j = 0; j < kBlock; ++j) {
    // Relative to the scale, so that tiny and huge blocks neither underflow nor overflow.
    const float v = x[j] / scale;
    const float difference = v - e2m1_to_f32(f32_to_e2m1(v));
    error += w[j] * difference * difference;
  }
  return error;
}

}  // namespace

void quantize_scaled(DType dtype, HostMat<const float> x, int scale_rows, int scale_cols, std::byte* codes,
                     std::byte* scales) {
  FATHOM_CHECK(dtype == DType::kF8_E4M3 || dtype == DType::kF4_E2M1, "only these types keep their scales apart");
  FATHOM_CHECK(scale_rows > 0 && scale_cols > 0, "tile size");
  const float largest = dtype == DType::kF8_E4M3 ? kE4M3Max : kE2M1Max;
  std::memset(codes, 0, static_cast<size_t>(x.rows()) * dtype_row_bytes(dtype, x.cols()));
  for (int row = 0; row < x.rows(); row += scale_rows) {
    for (int col = 0; col < x.cols(); col += scale_cols) {
      const Tile tile{row, col, std::min(scale_rows, x.rows() - row), std::min(scale_cols, x.cols() - col)};
      const uint8_t code = scale_code(largest_magnitude(dtype, x, tile), largest);
      *scales++ = std::byte{code};
      encode_tile(dtype, x, tile, e8m0_to_f32(code), codes);
    }
  }
}

// From the scale that just avoids clipping downwards: each halving clips more of the largest values and halves the
// steps of the others, which pays while what is clipped is little or unimportant. Doubling never pays: the coarser
// levels are among the finer ones.
void quantize_block(const float* x, const float* w, BlockMXFP4& block) noexcept {
  constexpr int kMaxHalvings = 8;
  float amax = 0.0F;
  for (int j = 0; j < kBlock; ++j) {
    amax = std::max(amax, std::fabs(x[j]));
  }
  const int unclipped = scale_code(amax, kE2M1Max);
  float least = std::numeric_limits<float>::infinity();
  float unit = 1.0F;  // square of the scale, relative to the first
  for (int code = unclipped; code >= std::max(0, unclipped - kMaxHalvings); --code, unit *= 0.25F) {
    const float error = unit * mxfp4_error(x, w, static_cast<uint8_t>(code));
    if (error < least) {
      least = error;
      block.e = static_cast<uint8_t>(code);
    }
  }
  const float scale = e8m0_to_f32(block.e);
  for (int j = 0; j < kBlock / 2; ++j) {
    block.qs[j] = static_cast<uint8_t>(f32_to_e2m1(x[j] / scale) | f32_to_e2m1(x[j + kBlock / 2] / scale) << 4);
  }
}

void repack_f4_as_mxfp4(const std::byte* codes, const std::byte* scales, std::byte* out, int64_t n) noexcept {
  FATHOM_DCHECK(n % kBlock == 0, "a row is a whole number of blocks");
  constexpr int kHalf = kBlock / 2;
  const auto code_at = [](const std::byte* bytes, int j) {
    return std::to_integer<unsigned>(bytes[j / 2] >> (j % 2 * 4)) & 0xFU;
  };
  for (int64_t i = 0; i < n / kBlock; ++i) {
    const std::byte* in = codes + i * kHalf;
    BlockMXFP4 block{};
    block.e = std::to_integer<uint8_t>(scales[i]);
    for (int j = 0; j < kHalf; ++j) {
      block.qs[j] = static_cast<uint8_t>(code_at(in, j) | code_at(in, j + kHalf) << 4);
    }
    store_block(block, out, i);
  }
}

}  // namespace fathom
