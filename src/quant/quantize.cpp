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
float largest_magnitude(DType dtype) {
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
  const float limit = largest_magnitude(dtype);
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

}  // namespace

void quantize_row(DType dtype, const float* x, std::byte* out, int64_t n, std::span<const float> importance) {
  FATHOM_CHECK(n % dtype_info(dtype).block_size == 0, "a row is a whole number of blocks");
  FATHOM_CHECK(importance.empty() || importance.size() == static_cast<size_t>(n), "one importance per value");
  switch (dtype) {
    case DType::kF32:
      return encode_values<float>(x, out, n, [](float v) { return v; });
    case DType::kI32:
      return encode_integers<int32_t>(dtype, x, out, n);
    case DType::kI64:
      return encode_integers<int64_t>(dtype, x, out, n);
    default:
      break;
  }
  check_magnitudes(dtype, {x, static_cast<size_t>(n)});
  switch (dtype) {
    case DType::kF16:
      return encode_values<uint16_t>(x, out, n, f32_to_f16);
    case DType::kBF16:
      return encode_values<uint16_t>(x, out, n, f32_to_bf16);
    case DType::kQ8_0:
      return encode_blocks<BlockQ8_0>(x, out, n, importance, kBlock);
    case DType::kMXFP4:
      return encode_blocks<BlockMXFP4>(x, out, n, importance, kBlock);
    default:
      break;
  }
  FATHOM_CHECK(false, "no encoder for this type");
}

}  // namespace fathom
