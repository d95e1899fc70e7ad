#include "sampling/softmax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.h"

namespace fathom {
namespace {

// Independent accumulators: the loops vectorise, and the order of additions does not depend on how.
constexpr size_t kLanes = 8;

// Branch-free, so that the loop over a row vectorises. Of two floats that are not positive, the smaller has the larger
// bits, so the limit is applied to the bits: a choice between integers is one that compilers vectorise.
inline float exp_nonpositive_inline(float x) noexcept {
  constexpr uint32_t kLowest = std::bit_cast<uint32_t>(-87.336F);  // just above log of the smallest normal number
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;    // 9 bits, so that k * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;  // ln 2 - kLn2High
  constexpr float kRound = 12582912.0F;       // 1.5 * 2^23: adding it leaves the nearest integer in the low bits

  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const float clamped = std::bit_cast<float>(bits < kLowest ? bits : kLowest);
  const float shifted = clamped * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (clamped - k * kLn2High) - k * kLn2Low;  // |r| <= ln 2 / 2

  // e^r: the minimax polynomial of Cephes' expf.
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e_r = p * (r * r) + r + 1.0F;

  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound)) + 127U;
  const float result = e_r * std::bit_cast<float>(exponent << 23);
  const uint32_t keep = bits <= kLowest ? ~0U : 0U;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) & keep);
}

template <class Map>
double sum_mapped(std::span<const float> values, Map map) noexcept {
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(map(values[i + lane]));
    }
  }
  for (; i < values.size(); ++i) {
    lanes[0] += static_cast<double>(map(values[i]));
  }
  double sum = 0.0;
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

}  // namespace

void expect_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7F800000U;
  uint32_t bad = 0;
  for (const float x : logits) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(x) & kExponent) == kExponent);
  }
  if (bad == 0) {
    return;
  }
  const auto first = std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
  throw Error(ErrorCode::kDevice, fmt::format("logit of token {} is {}, expected a finite number: the step's "
                                              "arithmetic failed",
                                              first - logits.begin(), *first));
}

float max_of(std::span<const float> values) noexcept {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  for (; i < values.size(); ++i) {
    lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

float exp_nonpositive(float x) noexcept { return exp_nonpositive_inline(x); }

void softmax_weights(std::span<const float> logits, float max, float temperature, std::span<float> weights) noexcept {
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = exp_nonpositive_inline((logits[i] - max) / temperature);
  }
}

double sum_of(std::span<const float> values) noexcept {
  return sum_mapped(values, [](float x) { return x; });
}

double log_sum_exp(std::span<const float> logits, float max) noexcept {
  return std::log(sum_mapped(logits, [max](float x) { return exp_nonpositive_inline(x - max); }));
}

}  // namespace fathom
