// A small model, and a tree of token sequences with the logits of fresh runs over them: a trunk, and branches that
// leave it at many positions and go on with tokens of their own.
#pragma once

#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/model_runner.h"

namespace fathom {

inline constexpr int kTrunk = 270;         // two blocks of 128 and some
inline constexpr int kBranchTokens = 40;   // of its own
inline constexpr int kBranchSpacing = 10;  // less than what a rewind may take back
inline constexpr int kRewindRows = 16;
inline constexpr int kMaxRows = kTrunk + kBranchTokens;

struct Case {
  const char* name;
  BackendKind backend;
  bool activation_sim;
  KvType kv_type;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline BackendOptions backend_options(const Case& c) {
  return {
      .kind = c.backend,
      .threads = 1,  // the steps are too small to share
      .max_rows = kMaxRows,
      .cache = {
          .activation_sim = c.activation_sim, .kv_type = c.kv_type, .block_tokens = 128, .rewind_rows = kRewindRows}};
}

inline RunnerConfig runner_config(const Case& c, int max_sequences, int max_snapshots) {
  return {.model_path = (std::filesystem::path(FATHOM_TEST_DATA_DIR) / "oracle/mini").string(),
          .backend = backend_options(c),
          .max_context = kMaxRows,
          .max_sequences = max_sequences,
          .max_snapshots = max_snapshots};
}

// Branch 0 is the trunk.
struct Branch {
  int leaves_at = 0;  // tokens shared with the trunk
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // [tokens, V], of a fresh run

  [[nodiscard]] int length() const { return static_cast<int>(tokens.size()); }
};

class TokenTree {
 public:
  TokenTree(const Case& c, std::mt19937& random) {
    branches_.push_back({.leaves_at = 0, .tokens = {}, .logits = {}});
    for (int at = 0; at < kTrunk; at += kBranchSpacing) {
      branches_.push_back({.leaves_at = at, .tokens = {}, .logits = {}});
    }
    const auto runner = ModelRunner::open(runner_config(c, static_cast<int>(branches_.size()), 0));
    vocab_ = static_cast<size_t>(runner->vocab());
    std::vector<SequenceCache> sequences;  // all alive, so that each run has memory that nobody used before
    for (Branch& b : branches_) {
      const Branch& trunk = branches_.front();
      b.tokens.assign(trunk.tokens.begin(), trunk.tokens.begin() + b.leaves_at);
      const size_t length = &b == &trunk ? size_t{kTrunk} : b.tokens.size() + kBranchTokens;
      while (b.tokens.size() < length) {
        b.tokens.push_back(static_cast<TokenId>(random() % vocab_));
      }
      sequences.push_back(runner->make_sequence());
      const StepInput input{.sequence = &sequences.back(), .tokens = b.tokens, .n_logits = b.length()};
      const HostMat<const float> logits = runner->run({&input, 1});
      b.logits.assign(logits.data(), logits.data() + b.tokens.size() * vocab_);
    }
  }

  [[nodiscard]] const Branch& branch(int i) const { return branches_[static_cast<size_t>(i)]; }

  [[nodiscard]] bool is_row_equal(int branch, int position, std::span<const float> row) const {
    return std::memcmp(row.data(), &this->branch(branch).logits[static_cast<size_t>(position) * vocab_],
                       vocab_ * sizeof(float)) == 0;
  }

  // Branches that go on after `position` and whose tokens before it are those of `branch`.
  [[nodiscard]] std::vector<int> continuations(int branch, int position) const {
    std::vector<int> found;
    for (int other = 0; other < static_cast<int>(branches_.size()); ++other) {
      const bool same_past = other == branch || (shared(branch) >= position && shared(other) >= position);
      if (same_past && this->branch(other).length() > position) {
        found.push_back(other);
      }
    }
    return found;
  }

 private:
  // Tokens in common with the trunk.
  [[nodiscard]] int shared(int i) const { return i == 0 ? kTrunk : branch(i).leaves_at; }

  std::vector<Branch> branches_;
  size_t vocab_ = 0;
};

}  // namespace fathom
