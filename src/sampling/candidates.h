// Lists of the likeliest tokens, found without sorting the vocabulary. The order is total (better value first, then
// the lower id), so ties never depend on the algorithm.
#pragma once

#include <span>
#include <vector>

#include "core/dtype.h"

namespace fathom {

struct Candidate {
  float value = 0.0F;  // a logit or a weight
  TokenId token = 0;
};

[[nodiscard]] constexpr bool better(const Candidate& a, const Candidate& b) noexcept {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

// The k best of values, best first, into `out`; -infinity is no candidate.
void select_best(std::span<const float> values, int k, std::vector<Candidate>& out);

// All weights of at least `lowest`, which is above 0, in id order.
void select_at_least(std::span<const float> weights, float lowest, std::vector<Candidate>& out);

// The fewest best tokens whose weights reach `share` (below 1) of `total`, the sum of all weights; best first.
void select_nucleus(std::span<const float> weights, double total, double share, std::vector<Candidate>& out);

// Cuts a list in best-first order to the fewest that reach `share` of its own sum.
void cut_to_nucleus(std::vector<Candidate>& candidates, double share);

}  // namespace fathom
