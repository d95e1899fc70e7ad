#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "sampling/random.h"
#include "sampling/softmax.h"

namespace fathom {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

uint64_t fresh_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// Bias and penalties may take a huge logit out of range; infinity is for forbidden tokens only.
float keep_finite(float x) {
  return std::clamp(x, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

void forbid(std::span<float> logits, TokenMask allowed) {
  // Masks are mostly all or nothing.
  for (size_t first = 0; first < logits.size(); first += 64) {
    const uint64_t word = allowed[first / 64];
    const size_t n = std::min<size_t>(64, logits.size() - first);
    if (word == 0) {
      std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(first), n, kForbidden);
    } else if (word != ~uint64_t{0}) {
      for (size_t i = 0; i < n; ++i) {
        logits[first + i] = (word >> i & 1U) != 0 ? logits[first + i] : kForbidden;
      }
    }
  }
}

// The token of a mask that allows just one.
std::optional<TokenId> only_allowed(TokenMask allowed) {
  std::optional<TokenId> only;
  for (size_t word = 0; word < allowed.size(); ++word) {
    if (allowed[word] != 0) {
      if (only || !std::has_single_bit(allowed[word])) {
        return std::nullopt;
      }
      only = static_cast<TokenId>(64 * word + static_cast<size_t>(std::countr_zero(allowed[word])));
    }
  }
  return only;
}

// The first element whose running sum exceeds u of the total; weights of 0 are never drawn.
template <class Range, class WeightOf>
size_t draw_index(const Range& range, double total, double u, WeightOf weight_of) {
  const double target = u * total;
  double reached = 0.0;
  size_t last = 0;
  for (size_t i = 0; i < range.size(); ++i) {
    const float weight = weight_of(range[i]);
    if (weight > 0.0F) {
      reached += static_cast<double>(weight);
      last = i;
      if (reached > target) {
        break;
      }
    }
  }
  return last;
}

}  // namespace

Sampler::Sampler(SamplingParams params, int vocab, std::span<const TokenId> prompt)
    : params_(std::move(params)), vocab_(static_cast<size_t>(vocab)) {
  validate(params_, vocab);
  seed_ = params_.seed ? *params_.seed : fresh_seed();
  penalties_ =
      params_.repetition_penalty != 1.0F || params_.presence_penalty != 0.0F || params_.frequency_penalty != 0.0F;
  if (params_.repetition_penalty != 1.0F) {
    for (const TokenId token : prompt) {
      seen_[token].in_prompt = true;
    }
  }
}

void Sampler::accept(TokenId token) {
  if (penalties_) {
    ++seen_[token].n_generated;
  }
}

float Sampler::penalise(float logit, const Seen& seen) const {
  logit = logit > 0.0F ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  if (seen.n_generated > 0) {
    logit -= params_.frequency_penalty * static_cast<float>(seen.n_generated) + params_.presence_penalty;
  }
  return keep_finite(logit);
}

std::span<const float> Sampler::adjust(std::span<const float> logits, TokenMask allowed,
                                       std::vector<float>& buffer) const {
  if (params_.logit_bias.empty() && seen_.empty() && allowed.empty()) {
    return logits;
  }
  buffer.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : params_.logit_bias) {
    float& logit = buffer[static_cast<size_t>(token)];
    logit = keep_finite(logit + bias);
  }
  for (const auto& [token, seen] : seen_) {
    float& logit = buffer[static_cast<size_t>(token)];
    logit = penalise(logit, seen);
  }
  if (!allowed.empty()) {
    forbid(buffer, allowed);
  }
  return buffer;
}

TokenId Sampler::sample(std::span<const float> logits, int position, SamplingBuffers& buffers,
                        TokenMask allowed) const {
  FATHOM_CHECK(logits.size() == vocab_, "logits are not those of this vocabulary");
  FATHOM_CHECK(allowed.empty() || allowed.size() * 64 >= vocab_, "token mask shorter than the vocabulary");
  expect_finite(logits);
  if (const std::optional<TokenId> only = only_allowed(allowed)) {
    return *only;  // what the rest would draw
  }
  const std::span<const float> adjusted = adjust(logits, allowed, buffers.logits);
  const float max = max_of(adjusted);
  if (max == kForbidden) {
    throw Error(ErrorCode::kBadRequest, fmt::format("position {}: none of the {} tokens is allowed", position, vocab_));
  }
  if (params_.temperature == 0.0F) {
    return static_cast<TokenId>(std::find(adjusted.begin(), adjusted.end(), max) - adjusted.begin());
  }
  return draw(adjusted, max, uniform_at(seed_, static_cast<uint64_t>(position)), buffers);
}

TokenId Sampler::draw(std::span<const float> logits, float max, double u, SamplingBuffers& buffers) const {
  std::vector<Candidate>& candidates = buffers.candidates;
  if (params_.top_k > 0) {
    select_best(logits, params_.top_k, candidates);
    for (Candidate& c : candidates) {
      c.value = exp_nonpositive((c.value - max) / params_.temperature);
    }
    cut_to_nucleus(candidates, static_cast<double>(params_.top_p));
  } else {
    buffers.weights.resize(vocab_);
    softmax_weights(logits, max, params_.temperature, buffers.weights);
    const double total = sum_of(buffers.weights);
    if (params_.top_p < 1.0F) {
      select_nucleus(buffers.weights, total, static_cast<double>(params_.top_p), candidates);
    } else if (params_.min_p > 0.0F) {
      select_at_least(buffers.weights, params_.min_p, candidates);
    } else {
      return static_cast<TokenId>(draw_index(buffers.weights, total, u, [](float w) { return w; }));
    }
  }

  // The best candidate weighs 1, so weights are already relative to it.
  std::erase_if(candidates, [&](const Candidate& c) { return c.value < params_.min_p; });
  double total = 0.0;
  for (const Candidate& c : candidates) {
    total += static_cast<double>(c.value);
  }
  return candidates[draw_index(candidates, total, u, [](const Candidate& c) { return c.value; })].token;
}

}  // namespace fathom
