// Log-probabilities as the APIs report them: log-softmax of the raw logits, before bias, penalties, mask, temperature
// and truncation.
#pragma once

#include <span>
#include <vector>

#include "core/dtype.h"

namespace fathom {

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;
};

struct Logprobs {
  float chosen = 0.0F;            // of the token that was chosen, or stands in the prompt
  std::vector<TokenLogprob> top;  // the likeliest tokens, best first; ties by lower id
};

// The most alternatives a request may ask for.
inline constexpr int kMaxTopLogprobs = 20;

// Throws kDevice when a logit is not finite. `token` must be inside the vocabulary.
[[nodiscard]] Logprobs compute_logprobs(std::span<const float> logits, TokenId token, int n_top);

}  // namespace fathom
