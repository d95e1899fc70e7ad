// The arithmetic over whole rows of logits. Plain loops in a fixed order and an exponential of our own, so that a
// seed draws the same token with every compiler and C library.
#pragma once

#include <span>

namespace fathom {

// Throws kDevice, naming the first logit that is infinite or NaN.
void expect_finite(std::span<const float> logits);

// The largest value; -infinity for an empty span. Values must not be NaN.
[[nodiscard]] float max_of(std::span<const float> values) noexcept;

// e^x for x <= 0, within 2 units in the last place; 0 where e^x is below the smallest normal number.
[[nodiscard]] float exp_nonpositive(float x) noexcept;

// weights[i] = exp((logits[i] - max) / temperature), so the best token weighs 1 and a logit of -infinity 0.
void softmax_weights(std::span<const float> logits, float max, float temperature, std::span<float> weights) noexcept;

[[nodiscard]] double sum_of(std::span<const float> values) noexcept;

// log(sum of exp(logits[i] - max)).
[[nodiscard]] double log_sum_exp(std::span<const float> logits, float max) noexcept;

}  // namespace fathom
