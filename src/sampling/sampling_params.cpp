#include "sampling/sampling_params.h"

#include <fmt/format.h>

#include "core/error.h"

namespace fathom {
namespace {

// Written so that NaN is out of every range.
void expect_between(const char* field, float value, float low, float high) {
  if (!(value >= low && value <= high)) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: {}, expected {} to {}", field, value, low, high));
  }
}

}  // namespace

void validate(const SamplingParams& params, int vocab) {
  expect_between("temperature", params.temperature, 0.0F, 100.0F);
  if (params.top_k < -1) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("top_k: {}, expected a count, or 0 or -1 for all tokens", params.top_k));
  }
  if (!(params.top_p > 0.0F && params.top_p <= 1.0F)) {
    throw Error(ErrorCode::kBadRequest, fmt::format("top_p: {}, expected above 0 and at most 1", params.top_p));
  }
  expect_between("min_p", params.min_p, 0.0F, 1.0F);
  expect_between("repetition_penalty", params.repetition_penalty, 0.1F, 10.0F);
  expect_between("presence_penalty", params.presence_penalty, -2.0F, 2.0F);
  expect_between("frequency_penalty", params.frequency_penalty, -2.0F, 2.0F);
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("logit_bias: token {}, expected an id from 0 to {}", token, vocab - 1));
    }
    if (!(bias >= -100.0F && bias <= 100.0F)) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("logit_bias: {} for token {}, expected -100 to 100", bias, token));
    }
  }
}

}  // namespace fathom
