#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

double exact_logprob(const std::vector<float>& logits, size_t token) {
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - static_cast<double>(logits[token]));
  }
  return -std::log(sum);
}

TEST(Logprobs, AreTheLogSoftmaxOfTheLogits) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 6.0F);
  std::vector<float> logits(1003);
  for (float& logit : logits) {
    logit = normal(random);
  }
  const Logprobs logprobs = compute_logprobs(logits, 500, 20);
  EXPECT_NEAR(logprobs.chosen, exact_logprob(logits, 500), 1e-5);
  ASSERT_EQ(logprobs.top.size(), 20U);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(logprobs.top[i].logprob, exact_logprob(logits, static_cast<size_t>(logprobs.top[i].token)), 1e-5);
    EXPECT_TRUE(i == 0 || logprobs.top[i].logprob <= logprobs.top[i - 1].logprob);
  }
}

// Differences count, not sizes: no overflow for huge logits, no loss for a certain token.
TEST(Logprobs, SurviveHugeLogits) {
  const Logprobs logprobs = compute_logprobs(std::vector<float>{3e38F, -3e38F, 3e38F}, 0, 1);
  EXPECT_NEAR(logprobs.chosen, -std::log(2.0), 1e-6);
  EXPECT_EQ(logprobs.top[0].token, 0);
  EXPECT_EQ(compute_logprobs(std::vector<float>{200.0F, 0.0F}, 0, 0).chosen, 0.0F);
  EXPECT_EQ(compute_logprobs(std::vector<float>{200.0F, 0.0F}, 1, 0).chosen, -200.0F);
}

TEST(Logprobs, TiesGoToTheLowerId) {
  const Logprobs logprobs = compute_logprobs(std::vector<float>{1.0F, 2.0F, 2.0F, 2.0F}, 0, 2);
  ASSERT_EQ(logprobs.top.size(), 2U);
  EXPECT_EQ(logprobs.top[0].token, 1);
  EXPECT_EQ(logprobs.top[1].token, 2);
}

TEST(Logprobs, ZeroAlternativesStillGiveTheChosen) {
  const Logprobs logprobs = compute_logprobs(std::vector<float>{0.0F, 0.0F}, 1, 0);
  EXPECT_TRUE(logprobs.top.empty());
  EXPECT_NEAR(logprobs.chosen, -std::log(2.0), 1e-6);
}

TEST(Logprobs, RejectsNan) {
  EXPECT_ERROR((void)compute_logprobs(std::vector<float>{0.0F, std::numeric_limits<float>::quiet_NaN()}, 0, 1),
               ErrorCode::kDevice, "logit of token 1 is nan, expected a finite number: the step's arithmetic failed");
}

}  // namespace
}  // namespace fathom
