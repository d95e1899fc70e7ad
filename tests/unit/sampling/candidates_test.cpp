#include "sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace fathom {
namespace {

std::vector<TokenId> tokens_of(const std::vector<Candidate>& candidates) {
  std::vector<TokenId> tokens;
  for (const Candidate& c : candidates) {
    tokens.push_back(c.token);
  }
  return tokens;
}

// Ids by falling value, ties by rising id, the slow way.
std::vector<TokenId> sorted_tokens(const std::vector<float>& values) {
  std::vector<TokenId> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return ids;
}

// Few distinct values, so that ties are everywhere; multiples of 1/8, so that sums are exact.
std::vector<float> random_weights(std::mt19937& random, size_t n) {
  std::vector<float> values(n);
  for (float& v : values) {
    v = static_cast<float>(random() % 9) / 8.0F;
  }
  return values;
}

TEST(SelectBest, EqualsSortingForEveryCount) {
  std::mt19937 random(1);
  for (const size_t n : {1U, 2U, 7U, 64U, 301U}) {
    const std::vector<float> values = random_weights(random, n);
    const std::vector<TokenId> sorted = sorted_tokens(values);
    for (size_t k = 0; k <= n + 2; ++k) {
      std::vector<Candidate> best;
      select_best(values, static_cast<int>(k), best);
      EXPECT_EQ(tokens_of(best),
                std::vector<TokenId>(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(std::min(k, n))));
    }
  }
}

TEST(SelectBest, SkipsForbiddenTokens) {
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  std::vector<Candidate> best;
  select_best(std::vector<float>{kForbidden, -5.0F, kForbidden, -4.0F}, 3, best);
  EXPECT_EQ(tokens_of(best), (std::vector<TokenId>{3, 1}));
}

TEST(SelectAtLeast, KeepsIdOrder) {
  std::vector<Candidate> kept;
  select_at_least(std::vector<float>{0.5F, 1.0F, 0.25F, 0.5F}, 0.5F, kept);
  EXPECT_EQ(tokens_of(kept), (std::vector<TokenId>{0, 1, 3}));
}

TEST(SelectNucleus, EqualsSortingForEveryShare) {
  std::mt19937 random(2);
  for (const size_t n : {1U, 2U, 7U, 64U, 301U}) {
    std::vector<float> weights = random_weights(random, n);
    weights[n / 2] = 1.0F;
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const std::vector<TokenId> sorted = sorted_tokens(weights);
    for (const double share : {0.01, 0.25, 0.5, 0.9, 0.999}) {
      size_t expected = 0;
      for (double reached = 0.0; reached < share * total; ++expected) {
        reached += static_cast<double>(weights[static_cast<size_t>(sorted[expected])]);
      }
      const std::vector<TokenId> prefix(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(expected));
      std::vector<Candidate> nucleus;
      select_nucleus(weights, total, share, nucleus);
      EXPECT_EQ(tokens_of(nucleus), prefix) << "n = " << n << ", share = " << share;

      select_best(weights, static_cast<int>(n), nucleus);
      cut_to_nucleus(nucleus, share);
      EXPECT_EQ(tokens_of(nucleus), prefix) << "n = " << n << ", share = " << share;
    }
  }
}

TEST(CutToNucleus, WholeShareKeepsAllThatWeigh) {
  std::vector<Candidate> candidates{{1.0F, 4}, {0.5F, 2}, {0.0F, 7}};
  cut_to_nucleus(candidates, 1.0);
  EXPECT_EQ(tokens_of(candidates), (std::vector<TokenId>{4, 2}));
}

}  // namespace
}  // namespace fathom
