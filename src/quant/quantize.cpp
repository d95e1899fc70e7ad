#include "quant/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/error.h"
#include "core/scalar.h"
#include "quant/quantize_impl.h"

namespace fathom {
namespace {

constexpr float kF16Max = 65504.0F;
constexpr float kBf16Max = 0x1.FEp127F;

// Largest magnitude a type may be asked to encode. Every block format but MXFP4 scales with an F16 number: what F16
// itself can hold is safe for all of them, and far beyond any real weight.
float magnitude_limit(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return kBf16Max;
    case DType::kMXFP4:
      return kPowerOfTwoScaledMax;
    default:
      return kF16Max;
  }
}

void check_magnitudes(DType dtype, std::span<const float> x) {
  const float limit = magnitude_limit(dtype);
  const auto bad = std::find_if(x.begin(), x.end(), [limit](float v) { return !(std::fabs(v) <= limit); });
  if (bad != x.end()) {
    throw Error(ErrorCode::kBadModel, fmt::format("value {} of the row is {}: {} encodes finite values up to {:g}",
                                                  bad - x.begin(), *bad, dtype_info(dtype).name, limit));
  }
}

template <class Stored, class Convert>
void encode_values(const float* x, std::byte* out, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    store_block<Stored>(convert(x[i]), out, i);
  }
}

template <class Integer>
void encode_integers(DType dtype, const float* x, std::byte* out, int64_t n) {
  // Both limits are powers of two, hence exact.
  constexpr auto kMin = static_cast<float>(std::numeric_limits<Integer>::min());
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= kMin && x[i] < -kMin && std::trunc(x[i]) == x[i])) {
      throw Error(ErrorCode::kBadModel, fmt::format("value {} of the row is {}: {} encodes integers from {} to {}", i,
                                                    x[i], dtype_info(dtype).name, std::numeric_limits<Integer>::min(),
                                                    std::numeric_limits<Integer>::max()));
    }
    store_block(static_cast<Integer>(x[i]), out, i);
  }
}

// Weights of one block's values. Zero importance still counts a little, so that every group of values has a best scale.
void block_weights(std::span<const float> importance, std::span<float> w) {
  float sum = 0.0F;
  for (const float v : importance) {
    sum += v;
  }
  if (!(sum > 0.0F)) {
    std::fill(w.begin(), w.end(), 1.0F);
    return;
  }
  const auto n = static_cast<float>(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = importance[i] * n / sum + 1e-3F;
  }
}

template <class Block>
void encode_blocks(const float* x, std::byte* out, int64_t n, std::span<const float> importance, int block_size) {
  std::array<float, kSuperBlock> buffer;
  const std::span<float> w = std::span(buffer).first(static_cast<size_t>(block_size));
  std::fill(w.begin(), w.end(), 1.0F);
  for (int64_t i = 0; i < n / block_size; ++i) {
    if (!importance.empty()) {
      block_weights(importance.subspan(static_cast<size_t>(i * block_size), w.size()), w);
    }
    Block block{};
    quantize_block(x + i * block_size, w.data(), block);
    store_block(block, out, i);
  }
}

void encode_block_format(DType dtype, const float* x, std::byte* out, int64_t n, std::span<const float> importance) {
  switch (dtype) {
    case DType::kQ4_0:
      return encode_blocks<BlockQ4_0>(x, out, n, importance, kBlock);
    case DType::kQ4_1:
      return encode_blocks<BlockQ4_1>(x, out, n, importance, kBlock);
    case DType::kQ5_0:
      return encode_blocks<BlockQ5_0>(x, out, n, importance, kBlock);
    case DType::kQ5_1:
      return encode_blocks<BlockQ5_1>(x, out, n, importance, kBlock);
    case DType::kQ8_0:
      return encode_blocks<BlockQ8_0>(x, out, n, importance, kBlock);
    case DType::kMXFP4:
      return encode_blocks<BlockMXFP4>(x, out, n, importance, kBlock);
    case DType::kQ2_K:
      return encode_blocks<BlockQ2_K>(x, out, n, importance, kSuperBlock);
    case DType::kQ3_K:
      return encode_blocks<BlockQ3_K>(x, out, n, importance, kSuperBlock);
    case DType::kQ4_K:
      return encode_blocks<BlockQ4_K>(x, out, n, importance, kSuperBlock);
    case DType::kQ5_K:
      return encode_blocks<BlockQ5_K>(x, out, n, importance, kSuperBlock);
    case DType::kQ6_K:
      return encode_blocks<BlockQ6_K>(x, out, n, importance, kSuperBlock);
    case DType::kIQ1_S:
      return encode_blocks<BlockIQ1_S>(x, out, n, importance, kSuperBlock);
    case DType::kIQ1_M:
      return encode_blocks<BlockIQ1_M>(x, out, n, importance, kSuperBlock);
    case DType::kIQ2_XXS:
      return encode_blocks<BlockIQ2_XXS>(x, out, n, importance, kSuperBlock);
    case DType::kIQ2_XS:
      return encode_blocks<BlockIQ2_XS>(x, out, n, importance, kSuperBlock);
    case DType::kIQ2_S:
      return encode_blocks<BlockIQ2_S>(x, out, n, importance, kSuperBlock);
    case DType::kIQ3_XXS:
      return encode_blocks<BlockIQ3_XXS>(x, out, n, importance, kSuperBlock);
    case DType::kIQ3_S:
      return encode_blocks<BlockIQ3_S>(x, out, n, importance, kSuperBlock);
    case DType::kIQ4_NL:
      return encode_blocks<BlockIQ4_NL>(x, out, n, importance, kBlock);
    case DType::kIQ4_XS:
      return encode_blocks<BlockIQ4_XS>(x, out, n, importance, kSuperBlock);
    default:
      FATHOM_CHECK(false, "types with scales apart are encoded by quantize_scaled()");
  }
}

}  // namespace

void quantize_row(DType dtype, const float* x, std::byte* out, int64_t n, std::span<const float> importance) {
  FATHOM_CHECK(n % dtype_info(dtype).block_size == 0, "a row is a whole number of blocks");
  FATHOM_CHECK(importance.empty() || importance.size() == static_cast<size_t>(n), "one importance per value");
  const std::span<const float> row(x, static_cast<size_t>(n));
  switch (dtype) {
    case DType::kF32:
      return encode_values<float>(x, out, n, [](float v) { return v; });
    case DType::kF16:
      check_magnitudes(dtype, row);
      return encode_values<uint16_t>(x, out, n, f32_to_f16);
    case DType::kBF16:
      check_magnitudes(dtype, row);
      return encode_values<uint16_t>(x, out, n, f32_to_bf16);
    case DType::kI32:
      return encode_integers<int32_t>(dtype, x, out, n);
    case DType::kI64:
      return encode_integers<int64_t>(dtype, x, out, n);
    default:
      check_magnitudes(dtype, row);
      return encode_block_format(dtype, x, out, n, importance);
  }
}

}  // namespace fathom
