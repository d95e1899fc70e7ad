#include "sampling/logprobs.h"

#include "core/check.h"
#include "sampling/candidates.h"
#include "sampling/softmax.h"

namespace fathom {

Logprobs compute_logprobs(std::span<const float> logits, TokenId token, int n_top) {
  FATHOM_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size(), "token outside the vocabulary");
  expect_finite(logits);
  const float max = max_of(logits);
  const double log_sum = log_sum_exp(logits, max);
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(max) - log_sum);
  };

  Logprobs result;
  result.chosen = logprob(logits[static_cast<size_t>(token)]);
  std::vector<Candidate> best;
  select_best(logits, n_top, best);
  result.top.reserve(best.size());
  for (const Candidate& c : best) {
    result.top.push_back({c.token, logprob(c.value)});
  }
  return result;
}

}  // namespace fathom
