// Chooses the tokens of one sequence: its parameters, its seed, and what it has said so far (for penalties).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "sampling/candidates.h"
#include "sampling/sampling_params.h"

namespace fathom {

// Bit t % 64 of word t / 64: token t may be chosen. Empty: every token may.
using TokenMask = std::span<const uint64_t>;

// Work memory of one draw, the size of the vocabulary; samplers that run one after the other share it.
struct SamplingBuffers {
  std::vector<float> logits;
  std::vector<float> weights;
  std::vector<Candidate> candidates;
};

class Sampler {
 public:
  // Throws kBadRequest (validate()).
  Sampler(SamplingParams params, int vocab, std::span<const TokenId> prompt);

  // The token at `position` of the sequence. Depends on the arguments, the parameters, the seed and the accepted tokens
  // alone. Throws kDevice for logits that are not finite and kBadRequest when `allowed` forbids every token.
  [[nodiscard]] TokenId sample(std::span<const float> logits, int position, SamplingBuffers& buffers,
                               TokenMask allowed = {}) const;
  // The token was taken into the sequence: penalties count it.
  void accept(TokenId token);

 private:
  struct Seen {
    bool in_prompt = false;
    int n_generated = 0;
  };

  [[nodiscard]] std::span<const float> adjust(std::span<const float> logits, TokenMask allowed,
                                              std::vector<float>& buffer) const;
  [[nodiscard]] float penalise(float logit, const Seen& seen) const;
  [[nodiscard]] TokenId draw(std::span<const float> logits, float max, double u, SamplingBuffers& buffers) const;

  SamplingParams params_;
  size_t vocab_;
  uint64_t seed_;
  bool penalties_;
  std::unordered_map<TokenId, Seen> seen_;  // filled only when a penalty is on
};

}  // namespace fathom
