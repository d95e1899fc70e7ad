// How the next token is chosen from the model's logits.
//
// Order of work (the APIs' and vLLM's; llama.cpp truncates before it applies the temperature, which is the same at 1):
//   1. logit_bias is added
//   2. repetition, then frequency and presence penalty
//   3. tokens that the mask forbids are removed
//   4. temperature; 0 takes the best token here and ignores what follows
//   5. top_k, then top_p of what is left, then min_p: each keeps the likeliest tokens
//   6. one draw in proportion to the probabilities left
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/dtype.h"

namespace fathom {

struct LogitBias {
  TokenId token = 0;
  float bias = 0.0F;  // [-100, 100]; -100 is a ban in effect
};

struct SamplingParams {
  float temperature = 1.0F;         // [0, 100]; 0: greedy, ties go to the lowest id
  int top_k = 0;                    // the k likeliest tokens; 0 or -1: all
  float top_p = 1.0F;               // (0, 1]: the likeliest tokens that together reach this probability; 1: all
  float min_p = 0.0F;               // [0, 1]: tokens at least this likely, relative to the likeliest; 0: all
  float repetition_penalty = 1.0F;  // [0.1, 10]: divides positive, multiplies negative logits of all tokens seen before
  float presence_penalty = 0.0F;    // [-2, 2]: subtracted once from tokens generated before
  float frequency_penalty = 0.0F;   // [-2, 2]: subtracted for every time a token was generated
  std::vector<LogitBias> logit_bias;
  std::optional<uint64_t> seed;  // the same seed draws the same tokens whatever else runs; unset: a new one
};

// Throws kBadRequest naming the field, its value and the allowed range.
void validate(const SamplingParams& params, int vocab);

}  // namespace fathom
