// Requests to the toy model and what they must generate.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/generation.h"
#include "recorder.h"
#include "toy_model.h"

namespace fathom {

inline SamplingParams seeded(uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  params.frequency_penalty = 0.3F;
  return params;
}

inline GenerationRequest request_of(int n_prompt, int salt, int max_tokens) {
  GenerationRequest request;
  request.prompt = toy_prompt(n_prompt, salt);
  request.sampling = seeded(static_cast<uint64_t>(salt));
  request.max_tokens = max_tokens;
  return request;
}

inline std::vector<TokenId> expected(const GenerationRequest& request) {
  return toy_continuation(request.prompt, request.sampling, *request.max_tokens);
}

inline void expect_generated(const Recorder& recorder, const GenerationRequest& request) {
  EXPECT_EQ(recorder.tokens, expected(request));
  EXPECT_EQ(recorder.finish().reason, FinishReason::kLength);
  EXPECT_EQ(recorder.finish().n_prompt, static_cast<int>(request.prompt.size()));
  EXPECT_EQ(recorder.finish().n_generated, *request.max_tokens);
  for (size_t i = 0; i < recorder.events.size(); ++i) {
    EXPECT_EQ(recorder.events[i].position, static_cast<int>(request.prompt.size() + i));
  }
}

}  // namespace fathom
