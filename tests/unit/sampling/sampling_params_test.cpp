#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "support/expect_error.h"

namespace fathom {
namespace {

constexpr int kVocab = 100;

void expect_rejected(const std::function<void(SamplingParams&)>& spoil, const std::string& message) {
  SamplingParams params;
  spoil(params);
  EXPECT_ERROR(validate(params, kVocab), ErrorCode::kBadRequest, message);
}

TEST(SamplingParams, AcceptsDefaultsAndLimits) {
  SamplingParams params;
  EXPECT_NO_THROW(validate(params, kVocab));
  params.temperature = 0.0F;
  params.top_k = -1;
  params.min_p = 1.0F;
  params.repetition_penalty = 10.0F;
  params.presence_penalty = -2.0F;
  params.frequency_penalty = 2.0F;
  params.logit_bias = {{0, -100.0F}, {kVocab - 1, 100.0F}};
  EXPECT_NO_THROW(validate(params, kVocab));
}

TEST(SamplingParams, NamesFieldValueAndRange) {
  expect_rejected([](SamplingParams& p) { p.temperature = -0.5F; }, "temperature: -0.5, expected 0 to 100");
  expect_rejected([](SamplingParams& p) { p.temperature = 100.5F; }, "temperature: 100.5, expected 0 to 100");
  expect_rejected([](SamplingParams& p) { p.top_k = -2; }, "top_k: -2, expected a count, or 0 or -1 for all tokens");
  expect_rejected([](SamplingParams& p) { p.top_p = 0.0F; }, "top_p: 0, expected above 0 and at most 1");
  expect_rejected([](SamplingParams& p) { p.top_p = 1.5F; }, "top_p: 1.5, expected above 0 and at most 1");
  expect_rejected([](SamplingParams& p) { p.min_p = -1.0F; }, "min_p: -1, expected 0 to 1");
  expect_rejected([](SamplingParams& p) { p.repetition_penalty = 0.0F; }, "repetition_penalty: 0, expected 0.1 to 10");
  expect_rejected([](SamplingParams& p) { p.presence_penalty = 2.5F; }, "presence_penalty: 2.5, expected -2 to 2");
  expect_rejected([](SamplingParams& p) { p.frequency_penalty = -3.0F; }, "frequency_penalty: -3, expected -2 to 2");
  expect_rejected(
      [](SamplingParams& p) {
        p.logit_bias = {{-1, 0.0F}};
      },
      "logit_bias: token -1, expected an id from 0 to 99");
  expect_rejected(
      [](SamplingParams& p) {
        p.logit_bias = {{100, 0.0F}};
      },
      "logit_bias: token 100, expected an id from 0 to 99");
  expect_rejected(
      [](SamplingParams& p) {
        p.logit_bias = {{5, 101.0F}};
      },
      "logit_bias: 101 for token 5, expected -100 to 100");
}

TEST(SamplingParams, NanIsInNoRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  expect_rejected([](SamplingParams& p) { p.temperature = kNan; }, "temperature: nan, expected 0 to 100");
  expect_rejected([](SamplingParams& p) { p.top_p = kNan; }, "top_p: nan, expected above 0 and at most 1");
  expect_rejected(
      [](SamplingParams& p) {
        p.logit_bias = {{5, kNan}};
      },
      "logit_bias: nan for token 5, expected -100 to 100");
}

}  // namespace
}  // namespace fathom
