#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

constexpr int kVocab = 70;  // more than one word of a mask

SamplingParams seeded(uint64_t seed = 1) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

std::vector<float> random_logits(unsigned seed, float spread = 2.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(kVocab);
  for (float& logit : logits) {
    logit = normal(random);
  }
  return logits;
}

TokenId sample_once(const SamplingParams& params, const std::vector<float>& logits, TokenMask allowed = {}) {
  SamplingBuffers buffers;
  return Sampler(params, static_cast<int>(logits.size()), {}).sample(logits, 0, buffers, allowed);
}

// The distribution that the documented order of work gives, computed the slow way in double.
std::vector<double> exact_distribution(const SamplingParams& params, const std::vector<float>& logits) {
  const size_t n = logits.size();
  const double best = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> p(n);
  for (size_t i = 0; i < n; ++i) {
    p[i] = std::exp((static_cast<double>(logits[i]) - best) / static_cast<double>(params.temperature));
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  const auto sum = [&] { return std::accumulate(p.begin(), p.end(), 0.0); };

  for (size_t i = 0; i < n; ++i) {
    if (params.top_k > 0 && i >= static_cast<size_t>(params.top_k)) {
      p[order[i]] = 0.0;
    }
  }
  const double total = sum();
  double reached = 0.0;
  for (const size_t i : order) {
    const double weight = p[i];
    if (params.top_p < 1.0F && reached >= static_cast<double>(params.top_p) * total) {
      p[i] = 0.0;
    }
    reached += weight;
  }
  for (double& weight : p) {
    weight = weight < static_cast<double>(params.min_p) ? 0.0 : weight;
  }
  const double rest = sum();
  for (double& weight : p) {
    weight /= rest;
  }
  return p;
}

void expect_drawn_like(const SamplingParams& params, const std::vector<float>& logits) {
  constexpr int kDraws = 40'000;
  const std::vector<double> exact = exact_distribution(params, logits);
  const Sampler sampler(params, kVocab, {});
  SamplingBuffers buffers;
  std::vector<int> counts(kVocab);
  for (int position = 0; position < kDraws; ++position) {
    ++counts[static_cast<size_t>(sampler.sample(logits, position, buffers))];
  }
  for (size_t token = 0; token < kVocab; ++token) {
    const double expected = exact[token] * kDraws;
    if (exact[token] == 0.0) {
      EXPECT_EQ(counts[token], 0) << "token " << token;
    }
    // Five standard deviations of a binomial; the seed is fixed.
    EXPECT_NEAR(counts[token], expected, 5.0 * std::sqrt(expected) + 3.0) << "token " << token;
  }
}

TEST(Sampler, DrawsFromTheDocumentedDistribution) {
  const std::vector<float> logits = random_logits(11);
  for (const float temperature : {0.3F, 1.0F, 2.0F}) {
    for (const int top_k : {0, 1, 8, 200}) {
      for (const float top_p : {1.0F, 0.9F, 0.4F}) {
        for (const float min_p : {0.0F, 0.2F}) {
          SCOPED_TRACE("temperature " + std::to_string(temperature) + ", top_k " + std::to_string(top_k) + ", top_p " +
                       std::to_string(top_p) + ", min_p " + std::to_string(min_p));
          SamplingParams params = seeded();
          params.temperature = temperature;
          params.top_k = top_k;
          params.top_p = top_p;
          params.min_p = min_p;
          expect_drawn_like(params, logits);
        }
      }
    }
  }
}

TEST(Sampler, GreedyTakesTheBestAndOfTiesTheLowestId) {
  std::vector<float> logits(kVocab, 0.0F);
  EXPECT_EQ(sample_once(greedy(), logits), 0);
  logits[66] = 1.0F;
  EXPECT_EQ(sample_once(greedy(), logits), 66);
  logits[9] = 1.0F;
  EXPECT_EQ(sample_once(greedy(), logits), 9);
}

TEST(Sampler, SameSeedAndPositionDrawTheSame) {
  const std::vector<float> logits = random_logits(12);
  const Sampler a(seeded(5), kVocab, {});
  const Sampler b(seeded(5), kVocab, {});
  const Sampler other(seeded(6), kVocab, {});
  SamplingBuffers shared;
  int n_different = 0;
  std::vector<TokenId> forward;
  for (int position = 0; position < 200; ++position) {
    forward.push_back(a.sample(logits, position, shared));
    n_different += static_cast<int>(forward.back() != other.sample(logits, position, shared));
  }
  EXPECT_GT(n_different, 50);
  for (int position = 199; position >= 0; --position) {
    SamplingBuffers own;
    EXPECT_EQ(b.sample(logits, position, own), forward[static_cast<size_t>(position)]) << "position " << position;
  }
}

TEST(Sampler, WithoutSeedEverySamplerHasItsOwn) {
  const std::vector<float> logits(kVocab, 0.0F);
  std::vector<TokenId> first;
  std::vector<TokenId> second;
  SamplingBuffers buffers;
  const Sampler a({}, kVocab, {});
  const Sampler b({}, kVocab, {});
  for (int position = 0; position < 50; ++position) {
    first.push_back(a.sample(logits, position, buffers));
    second.push_back(b.sample(logits, position, buffers));
  }
  EXPECT_NE(first, second);
}

TEST(Sampler, BiasIsAddedBeforeTheChoice) {
  std::vector<float> logits(kVocab, 0.0F);
  logits[3] = 5.0F;
  SamplingParams params = greedy();
  params.logit_bias = {{3, -100.0F}, {68, 1.0F}};
  EXPECT_EQ(sample_once(params, logits), 68);
}

TEST(Sampler, RepetitionPenaltyShrinksPositiveAndGrowsNegativeLogits) {
  std::vector<float> logits(kVocab, -10.0F);
  logits[1] = 3.0F;
  logits[2] = 2.0F;
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0F;
  SamplingBuffers buffers;
  const std::vector<TokenId> prompt{1};
  EXPECT_EQ(Sampler(params, kVocab, prompt).sample(logits, 1, buffers), 2);  // 1.5 < 2

  logits[1] = -3.0F;
  logits[2] = -4.0F;
  EXPECT_EQ(Sampler(params, kVocab, prompt).sample(logits, 1, buffers), 2);  // -6 < -4
  EXPECT_EQ(Sampler(params, kVocab, {}).sample(logits, 1, buffers), 1);
}

TEST(Sampler, PresenceCountsOnceFrequencyEveryTimeAndNeitherThePrompt) {
  std::vector<float> logits(kVocab, -10.0F);
  logits[1] = 1.0F;
  logits[2] = 0.0F;
  const std::vector<TokenId> prompt{1, 1, 1};
  SamplingBuffers buffers;

  SamplingParams params = greedy();
  params.presence_penalty = 0.75F;
  Sampler presence(params, kVocab, prompt);
  EXPECT_EQ(presence.sample(logits, 3, buffers), 1);
  presence.accept(1);
  presence.accept(1);
  EXPECT_EQ(presence.sample(logits, 5, buffers), 1);  // 1 - 0.75 > 0

  params.presence_penalty = 0.0F;
  params.frequency_penalty = 0.75F;
  Sampler frequency(params, kVocab, prompt);
  frequency.accept(1);
  EXPECT_EQ(frequency.sample(logits, 4, buffers), 1);  // 1 - 0.75 > 0
  frequency.accept(1);
  EXPECT_EQ(frequency.sample(logits, 5, buffers), 2);  // 1 - 1.5 < 0
}

// Repetition divides what the bias left, and presence is subtracted after it: (1 + 3) / 2 - 1 = 1.
TEST(Sampler, PenaltiesFollowTheBiasInTheDocumentedOrder) {
  std::vector<float> logits(kVocab, -10.0F);
  logits[1] = 1.0F;
  SamplingParams params = greedy();
  params.logit_bias = {{1, 3.0F}};
  params.repetition_penalty = 2.0F;
  params.presence_penalty = 1.0F;
  Sampler sampler(params, kVocab, {});
  sampler.accept(1);
  SamplingBuffers buffers;
  logits[2] = 0.99F;
  EXPECT_EQ(sampler.sample(logits, 1, buffers), 1);
  logits[2] = 1.01F;
  EXPECT_EQ(sampler.sample(logits, 1, buffers), 2);
}

TEST(Sampler, MaskForbidsWhateverTheParameters) {
  const std::vector<float> logits = random_logits(13);
  std::vector<uint64_t> allowed(2);
  for (const TokenId token : {2, 63, 64, 69}) {
    allowed[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  }
  SamplingBuffers buffers;
  for (SamplingParams params : {SamplingParams{}, greedy()}) {
    for (const int top_k : {0, 3, 50}) {
      for (const float top_p : {1.0F, 0.5F}) {
        params.seed = 4;
        params.top_k = top_k;
        params.top_p = top_p;
        const Sampler sampler(params, kVocab, {});
        for (int position = 0; position < 200; ++position) {
          const TokenId token = sampler.sample(logits, position, buffers, allowed);
          EXPECT_TRUE(token == 2 || token == 63 || token == 64 || token == 69) << "token " << token;
        }
      }
    }
  }
}

TEST(Sampler, MaskOfOneTokenIsThatToken) {
  std::vector<float> logits(kVocab, 3.0F);
  SamplingParams params;
  params.seed = 1;
  for (const TokenId token : {0, 5, 63, 64, 69}) {
    std::vector<uint64_t> allowed(2);
    allowed[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    params.logit_bias = {{.token = token, .bias = -100.0F}};
    EXPECT_EQ(sample_once(params, logits, allowed), token);
  }
}

TEST(Sampler, MaskOfEverythingChangesNothing) {
  const std::vector<float> logits = random_logits(14);
  const std::vector<uint64_t> all(2, ~uint64_t{0});
  const Sampler sampler(seeded(), kVocab, {});
  SamplingBuffers buffers;
  for (int position = 0; position < 100; ++position) {
    EXPECT_EQ(sampler.sample(logits, position, buffers, all), sampler.sample(logits, position, buffers));
  }
}

TEST(Sampler, RejectsMaskOfNothing) {
  const std::vector<uint64_t> nothing(2);
  EXPECT_ERROR((void)sample_once(greedy(), random_logits(15), nothing), ErrorCode::kBadRequest,
               "position 0: none of the 70 tokens is allowed");
}

TEST(Sampler, RejectsLogitsThatAreNotFinite) {
  std::vector<float> logits = random_logits(16);
  logits[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_ERROR((void)sample_once(greedy(), logits), ErrorCode::kDevice, "logit of token 20 is nan");
  EXPECT_ERROR((void)sample_once(seeded(), logits), ErrorCode::kDevice, "logit of token 20 is nan");
}

TEST(Sampler, RejectsParametersOutOfRange) {
  SamplingParams params;
  params.top_p = 2.0F;
  EXPECT_ERROR(Sampler(params, kVocab, {}), ErrorCode::kBadRequest, "top_p: 2, expected above 0 and at most 1");
}

// No parameter may turn finite logits into NaN or an index out of range.
TEST(Sampler, ExtremeLogitsAndParametersStayDefined) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  std::vector<float> logits(kVocab, -kHuge);
  logits[1] = kHuge;
  logits[2] = kHuge;
  SamplingBuffers buffers;
  for (const float temperature : {0.0F, std::numeric_limits<float>::denorm_min(), 1e-6F, 100.0F}) {
    for (const int top_k : {0, 1, 70}) {
      for (const float top_p : {1e-30F, 0.5F, 1.0F}) {
        SamplingParams params = seeded();
        params.temperature = temperature;
        params.top_k = top_k;
        params.top_p = top_p;
        params.min_p = 1.0F;
        params.repetition_penalty = 0.1F;
        params.presence_penalty = -2.0F;
        params.logit_bias = {{2, 100.0F}};
        Sampler sampler(params, kVocab, {});
        sampler.accept(1);
        const TokenId token = sampler.sample(logits, 1, buffers);
        EXPECT_TRUE(token == 1 || token == 2) << "token " << token;
      }
    }
  }
}

}  // namespace
}  // namespace fathom
