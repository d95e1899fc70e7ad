#include "sampling/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ExpNonpositive, StaysWithinTwoUnitsInTheLastPlace) {
  for (float x = 0.0F; x > -87.3F; x -= 0.00713F) {
    const double exact = std::exp(static_cast<double>(x));
    const float rounded = static_cast<float>(exact);
    const double ulp = static_cast<double>(std::nextafter(rounded, kInfinity)) - static_cast<double>(rounded);
    ASSERT_NEAR(static_cast<double>(exp_nonpositive(x)), exact, 2.0 * ulp) << "x = " << x;
  }
}

TEST(ExpNonpositive, IsExactAtBothEnds) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-88.0F), 0.0F);
  EXPECT_EQ(exp_nonpositive(std::numeric_limits<float>::lowest()), 0.0F);
  EXPECT_EQ(exp_nonpositive(-kInfinity), 0.0F);
}

TEST(SoftmaxWeights, BestWeighsOneAndForbiddenNothing) {
  const std::vector<float> logits{1.0F, 3.0F, -kInfinity, 2.0F};
  std::vector<float> weights(4);
  softmax_weights(logits, 3.0F, 0.5F, weights);
  EXPECT_FLOAT_EQ(weights[0], std::exp(-4.0F));
  EXPECT_EQ(weights[1], 1.0F);
  EXPECT_EQ(weights[2], 0.0F);
  EXPECT_FLOAT_EQ(weights[3], std::exp(-2.0F));
}

// The smallest temperatures there are divide to infinity, not to NaN.
TEST(SoftmaxWeights, TinyTemperatureLeavesOnlyTheBest) {
  const std::vector<float> logits{1.0F, 3.0F, 2.9999F};
  std::vector<float> weights(3);
  for (const float temperature : {1e-6F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
    softmax_weights(logits, 3.0F, temperature, weights);
    EXPECT_EQ(weights, (std::vector<float>{0.0F, 1.0F, 0.0F})) << "temperature " << temperature;
  }
}

TEST(RowSums, CountEveryElementAtEveryLength) {
  for (size_t n = 1; n < 40; ++n) {
    std::vector<float> values(n);
    double sum = 0.0;
    double exp_sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
      values[i] = -static_cast<float>((i * 7) % 11);
      sum += static_cast<double>(values[i]);
      exp_sum += std::exp(static_cast<double>(values[i]));
    }
    EXPECT_EQ(sum_of(values), sum) << "n = " << n;
    EXPECT_NEAR(log_sum_exp(values, 0.0F), std::log(exp_sum), 1e-6) << "n = " << n;
  }
  EXPECT_EQ(sum_of({}), 0.0);
}

TEST(MaxOf, FindsTheMaximumAtEveryPlace) {
  for (size_t n = 1; n < 20; ++n) {
    for (size_t best = 0; best < n; ++best) {
      std::vector<float> values(n, -3.0F);
      values[best] = -2.0F;
      EXPECT_EQ(max_of(values), -2.0F);
    }
  }
  EXPECT_EQ(max_of({}), -kInfinity);
}

TEST(ExpectFinite, NamesTheFirstBadLogit) {
  std::vector<float> logits(20, 1.0F);
  EXPECT_NO_THROW(expect_finite(logits));
  logits[13] = std::numeric_limits<float>::quiet_NaN();
  logits[17] = -kInfinity;
  EXPECT_ERROR(expect_finite(logits), ErrorCode::kDevice,
               "logit of token 13 is nan, expected a finite number: the step's arithmetic failed");
  logits[13] = 1.0F;
  EXPECT_ERROR(expect_finite(logits), ErrorCode::kDevice,
               "logit of token 17 is -inf, expected a finite number: the step's arithmetic failed");
  logits[17] = kInfinity;
  EXPECT_ERROR(expect_finite(logits), ErrorCode::kDevice,
               "logit of token 17 is inf, expected a finite number: the step's arithmetic failed");
}

}  // namespace
}  // namespace fathom
