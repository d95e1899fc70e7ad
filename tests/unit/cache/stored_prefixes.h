// A cache whose prefixes go to disk, over the toy model, whose outputs tell whether every row is right.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cache/prefix_cache.h"
#include "cache_fixture.h"

namespace fathom {

using Tokens = std::vector<TokenId>;

// The tokens of conversation `salt`, of any length.
inline Tokens conversation(int n, uint32_t salt) {
  std::mt19937 random(salt);
  Tokens tokens(static_cast<size_t>(n));
  std::generate(tokens.begin(), tokens.end(), [&] { return static_cast<TokenId>(random() % 1000); });
  return tokens;
}

inline PrefixStoreOptions store_options(const std::string& dir) {
  PrefixStoreOptions options;
  options.dir = dir;
  options.identity.fingerprint.fill(std::byte{7});
  options.identity.label = "toy";
  return options;
}

// One life of a process.
class StoredPrefixes {
 public:
  explicit StoredPrefixes(PrefixStoreOptions options) : prefixes_(f_.pool, size_t{1} << 30) {
    prefixes_.use_store(std::make_unique<PrefixStore>(f_.pool.layout(), std::move(options)));
  }

  // Goes on from what is there, computes the rest with anchors at these positions and at the end, and compares what
  // every row sees. Returns how many tokens were there.
  int run(const Tokens& tokens, std::initializer_list<int> anchors = {}) {
    SequenceCache sequence(f_.pool);
    const int cached = prefixes_.resume(tokens, sequence).cached;
    std::vector<int> ends(anchors);
    ends.push_back(static_cast<int>(tokens.size()));
    for (const int end : ends) {
      if (end > sequence.position()) {
        step(sequence, std::span(tokens).first(static_cast<size_t>(end)));
        prefixes_.keep(std::span(tokens).first(static_cast<size_t>(end)), sequence);
      }
    }
    return cached;
  }

  [[nodiscard]] PrefixCache& prefixes() { return prefixes_; }
  [[nodiscard]] CachePool& pool() { return f_.pool; }
  [[nodiscard]] PrefixStoreStats disk() const { return *prefixes_.stats().disk; }

 private:
  void step(SequenceCache& sequence, std::span<const TokenId> tokens) {
    const int start = sequence.position();
    const int n_rows = static_cast<int>(tokens.size()) - start;
    ASSERT_TRUE(prefixes_.make_room(sequence.plan(n_rows).blocks_acquired));
    StepTransaction step(f_.pool);
    step.add(sequence, n_rows);
    step.begin();
    const std::vector<uint64_t> outputs =
        run_toy_step(f_.ops, step.slices(), tokens.subspan(static_cast<size_t>(start)));
    step.commit();
    ASSERT_EQ(outputs, expected_outputs(f_.pool.layout(), tokens, start));
  }

  CacheFixture f_;
  PrefixCache prefixes_;
};

}  // namespace fathom
