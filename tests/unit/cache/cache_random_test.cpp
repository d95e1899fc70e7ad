// Random histories against the toy model: every output must be that of the tokens alone, and the books must agree with
// what is alive at every moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <vector>

#include "cache_fixture.h"

namespace fathom {
namespace {

constexpr CacheLimits kLimits{.max_context = 700, .max_slots = 9, .max_blocks = 24};

struct Live {
  SequenceCache cache;
  std::vector<TokenId> tokens;
};

struct Frozen {
  Snapshot snapshot;
  std::vector<TokenId> tokens;
};

class RandomHistory {
 public:
  explicit RandomHistory(uint32_t seed) : random_(seed), fixture_(kLimits) {}

  void run(int n_ops) {
    for (int i = 0; i < n_ops; ++i) {
      if (live_.empty()) {
        attempt([&] { live_.push_back({SequenceCache(fixture_.pool), {}}); });
      } else {
        one_op();
      }
      check_books();
    }
  }

  // All of it given back.
  void finish() {
    live_.clear();
    frozen_.clear();
    EXPECT_EQ(fixture_.pool.bytes_in_use(), 0U);
    EXPECT_EQ(fixture_.pool.blocks_free(), kLimits.max_blocks);
  }

  [[nodiscard]] int rows_compared() const { return rows_compared_; }
  [[nodiscard]] int refusals() const { return refusals_; }

 private:
  enum class Outcome { kCommitted, kCancelled, kFailed };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  template <class T>
  T& pick(std::list<T>& from) {
    return *std::next(from.begin(), below(static_cast<int>(from.size())));
  }

  // Running out of memory is part of the test; nothing else may go wrong.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      ASSERT_TRUE(error.code() == ErrorCode::kCacheFull || error.code() == ErrorCode::kContextBound ||
                  error.code() == ErrorCode::kContextExhausted)
          << error.what();
      ++refusals_;
    }
  }

  void one_op() {
    Live& a = pick(live_);
    switch (below(20)) {
      case 0:
        return attempt([&] { live_.push_back({SequenceCache(fixture_.pool), {}}); });
      case 1:
        live_.erase(std::find_if(live_.begin(), live_.end(), [&](const Live& l) { return &l == &a; }));
        return;
      case 2:
        a.cache.reset();
        a.tokens.clear();
        return;
      case 3:
      case 4:
        if (!a.cache.poisoned()) {
          attempt([&] { live_.push_back({a.cache.fork(), a.tokens}); });
        }
        return;
      case 5:
      case 6:
        if (!a.cache.poisoned()) {
          attempt([&] { frozen_.push_back({a.cache.snapshot(), a.tokens}); });
        }
        return;
      case 7:
        if (!frozen_.empty()) {
          frozen_.erase(std::next(frozen_.begin(), below(static_cast<int>(frozen_.size()))));
        }
        return;
      case 8:
      case 9:
        if (!frozen_.empty()) {
          const Frozen& from = pick(frozen_);
          a.cache.restore(from.snapshot);
          a.tokens = from.tokens;
        }
        return;
      case 10:
      case 11:
        return rewind(a);
      case 12:
        return step(Outcome::kCancelled);
      case 13:
        return step(Outcome::kFailed);
      default:
        return step(Outcome::kCommitted);
    }
  }

  void rewind(Live& a) {
    if (a.cache.poisoned()) {
      return;
    }
    const int floor = a.cache.rewind_floor();
    const int position = floor + below(a.cache.position() - floor + 1);
    a.cache.rewind(position);
    a.tokens.resize(static_cast<size_t>(position));
  }

  int pick_rows() { return below(8) == 0 ? 1 + below(300) : 1 + below(12); }

  void step(Outcome outcome) {
    StepTransaction step(fixture_.pool);
    std::vector<Live*> parts;
    std::vector<TokenId> tokens;
    for (Live& a : live_) {
      if (a.cache.poisoned() || below(2) == 0) {
        continue;
      }
      const int n = pick_rows();
      attempt([&] {
        step.add(a.cache, n);
        parts.push_back(&a);
        for (int i = 0; i < n; ++i) {
          tokens.push_back(below(1000));
        }
      });
    }
    if (parts.empty() || outcome == Outcome::kCancelled) {
      return;
    }
    step.begin();
    if (outcome == Outcome::kFailed && below(2) == 0) {
      return;
    }
    const std::vector<uint64_t> outputs = run_toy_step(fixture_.ops, step.slices(), tokens);
    if (outcome == Outcome::kFailed) {
      return;
    }
    const std::vector<SequenceSlice> slices(step.slices().begin(), step.slices().end());
    step.commit();
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto first = slices[i].first_row;
      const auto end = first + slices[i].n_rows;
      parts[i]->tokens.insert(parts[i]->tokens.end(), tokens.begin() + first, tokens.begin() + end);
      ASSERT_EQ(std::vector(outputs.begin() + first, outputs.begin() + end),
                expected_outputs(fixture_.pool.layout(), parts[i]->tokens, slices[i].start));
      rows_compared_ += slices[i].n_rows;
    }
  }

  void check_books() {
    std::set<int> slots;
    std::set<int32_t> blocks;
    size_t n = 0;
    const auto count = [&](const auto& cache) {
      ++n;
      slots.insert(cache.slot());
      blocks.insert(cache.blocks().begin(), cache.blocks().end());
    };
    for (const Live& a : live_) {
      count(a.cache);
      ASSERT_EQ(a.cache.position(), static_cast<int>(a.tokens.size()));
      ASSERT_EQ(static_cast<int>(a.cache.blocks().size()), fixture_.pool.layout().blocks_for(a.cache.position()));
    }
    for (const Frozen& a : frozen_) {
      count(a.snapshot);
    }
    ASSERT_EQ(slots.size(), n) << "a slot belongs to two";
    ASSERT_EQ(fixture_.pool.slots_in_use(), static_cast<int>(n));
    ASSERT_EQ(fixture_.pool.blocks_in_use(), static_cast<int>(blocks.size()));
    ASSERT_EQ(fixture_.pool.bytes_in_use(),
              n * fixture_.pool.layout().slot_bytes + blocks.size() * fixture_.pool.layout().block_bytes);
  }

  std::mt19937 random_;
  CacheFixture fixture_;
  std::list<Live> live_;
  std::list<Frozen> frozen_;
  int rows_compared_ = 0;
  int refusals_ = 0;
};

TEST(CacheRandom, EveryOutputIsThatOfTheTokensAloneAndTheBooksBalance) {
  int rows_compared = 0;
  int refusals = 0;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomHistory history(seed);
    history.run(1000);
    history.finish();
    rows_compared += history.rows_compared();
    refusals += history.refusals();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
  EXPECT_GT(rows_compared, 50000);
  EXPECT_GT(refusals, 500) << "the limits were never reached";
}

}  // namespace
}  // namespace fathom
