// Whatever a cache of prefixes went through (extended, forked, rewound, cancelled and failed sequences, evictions,
// anchors on disk and back, restarts), the logits of every row computed behind an anchor are those of a fresh run, bit
// for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "cache/prefix_cache.h"
#include "cache/step_transaction.h"
#include "engine/model_runner.h"
#include "model/config_reader.h"
#include "support/temp_dir.h"
#include "token_tree.h"

namespace fathom {
namespace {

constexpr int kMaxLive = 4;

struct Live {
  SequenceCache cache;
  int branch;
};

struct Counts {
  int rows = 0, starts = 0, hits = 0, forks = 0, rewinds = 0, cancels = 0, failed = 0, evictions = 0, clears = 0;
  int loads = 0, restarts = 0;
};

class Lives {
 public:
  Lives(const Case& c, std::mt19937& random, const TokenTree& tree) : case_(c), random_(random), tree_(tree) {
    restart();
  }

  void run(int n_ops) {
    for (int i = 0; i < n_ops; ++i) {
      SCOPED_TRACE(fmt::format("operation {}", i));
      one_op();
      check_books();
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }

  void finish() {
    live_.clear();
    EXPECT_EQ(runner_->pool().blocks_in_use(), prefixes_->stats().blocks);
    prefixes_->clear();
    EXPECT_EQ(runner_->pool().bytes_in_use(), 0U);
    EXPECT_EQ(prefixes_->stats().blocks, 0);
    EXPECT_EQ(prefixes_->stats().anchors, 0);
    collect_counts();
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Live& any() { return *std::next(live_.begin(), below(static_cast<int>(live_.size()))); }

  // Of the branch of a sequence.
  [[nodiscard]] std::span<const TokenId> tokens(const Live& a, int n) const {
    return std::span(tree_.branch(a.branch).tokens).first(static_cast<size_t>(n));
  }

  void restart() {
    if (runner_) {
      live_.clear();
      collect_counts();
      prefixes_.reset();
      ++counts_.restarts;
    }
    RunnerConfig config = runner_config(case_, kMaxLive, 0);
    // Three of the longest sequences: live ones compete with what is kept.
    config.prefix_bytes = 1;
    runner_ = std::make_unique<ModelRunner>(WeightSource::open(config.model_path), model(), ops(config), config);
    const CacheLayout& layout = runner_->pool().layout();
    prefixes_ = std::make_unique<PrefixCache>(runner_->pool(), 12 * layout.slot_bytes + 9 * layout.block_bytes);
    PrefixStoreOptions options;
    options.dir = dir_.path().string();
    options.budget_bytes = 60 * layout.slot_bytes;
    prefixes_->use_store(std::make_unique<PrefixStore>(layout, options));
  }

  [[nodiscard]] ModelConfig model() const {
    return read_config(*WeightSource::open(runner_config(case_, 1, 0).model_path));
  }
  // Memory that nobody wrote decodes to NaN.
  [[nodiscard]] std::unique_ptr<Ops> ops(const RunnerConfig& config) const {
    std::unique_ptr<Ops> ops = make_ops(model(), config.backend);
    const CacheLayout& layout = ops->cache_layout();
    constexpr int kBlocks = 24;
    ops->reserve_cache(kMaxLive, kBlocks);
    const std::vector<std::byte> garbage(std::max(layout.slot_bytes, layout.block_bytes), std::byte{0xFF});
    for (int i = 0; i < kMaxLive; ++i) {
      ops->write_slot(i, std::span(garbage).first(layout.slot_bytes));
    }
    for (int i = 0; i < kBlocks; ++i) {
      ops->write_block(i, std::span(garbage).first(layout.block_bytes));
    }
    return ops;
  }

  void one_op() {
    if (live_.empty()) {
      return start();
    }
    const int op = below(40);
    if (op < 8) {
      start();
    } else if (op < 22) {
      extend(any());
    } else if (op < 25) {
      fork(any());
    } else if (op < 29) {
      rewind(any());
    } else if (op < 35) {
      cancel();
    } else if (op < 36) {
      fail(any());
    } else if (op < 38) {
      static_cast<void>(prefixes_->make_room(1 + below(12)));
    } else if (op < 39) {
      prefixes_->flush();
      prefixes_->clear();
      ++counts_.clears;
    } else {
      restart();
    }
  }

  // A request: goes on from what is there and computes some of the rest.
  void start() {
    if (live_.size() == kMaxLive) {
      return cancel();
    }
    live_.push_back({runner_->make_sequence(), below(28)});
    Live& a = live_.back();
    const int n_prompt = 1 + below(tree_.branch(a.branch).length());
    const PrefixMatch match = prefixes_->resume(tokens(a, n_prompt), a.cache);
    ++counts_.starts;
    counts_.hits += match.cached > 0 ? 1 : 0;
    ASSERT_LT(match.cached, n_prompt);
    ASSERT_LE(match.cached, match.matched);
    ASSERT_EQ(a.cache.position(), match.cached);
    extend_to(a, n_prompt);
  }

  void extend(Live& a) {
    const std::vector<int> branches = tree_.continuations(a.branch, a.cache.position());
    if (a.cache.poisoned() || branches.empty()) {
      return;
    }
    a.branch = branches[static_cast<size_t>(below(static_cast<int>(branches.size())))];
    extend_to(a, std::min(a.cache.position() + 1 + below(40), tree_.branch(a.branch).length()));
  }

  void extend_to(Live& a, int end) {
    const int start = a.cache.position();
    if (end <= start || !prefixes_->make_room(a.cache.plan(end - start).blocks_acquired)) {
      return;
    }
    const StepInput input{
        .sequence = &a.cache, .tokens = tokens(a, end).subspan(static_cast<size_t>(start)), .n_logits = end - start};
    const HostMat<const float> logits = runner_->run({&input, 1});
    for (int t = start; t < end; ++t) {
      ASSERT_TRUE(tree_.is_row_equal(a.branch, t, logits.row(t - start)))
          << "branch " << a.branch << ", position " << t << " of a step from " << start << " to " << end;
      ++counts_.rows;
    }
    if (below(2) == 0) {
      const int at = std::max(end - below(kRewindRows + 1), start + 1);
      prefixes_->keep(tokens(a, at), a.cache);
    }
  }

  void fork(Live& a) {
    if (!a.cache.poisoned() && live_.size() < kMaxLive) {
      live_.push_back({a.cache.fork(), a.branch});
      ++counts_.forks;
    }
  }

  void rewind(Live& a) {
    if (!a.cache.poisoned()) {
      const int floor = a.cache.rewind_floor();
      a.cache.rewind(floor + below(a.cache.position() - floor + 1));
      ++counts_.rewinds;
    }
  }

  void cancel() {
    Live& a = any();
    if (below(2) == 0) {
      prefixes_->keep(tokens(a, a.cache.position()), a.cache);
    }
    live_.erase(std::find_if(live_.begin(), live_.end(), [&](const Live& other) { return &other == &a; }));
    ++counts_.cancels;
  }

  // A step that begins and does not end; nothing may be kept of it.
  void fail(Live& a) {
    if (a.cache.poisoned() || a.cache.position() == tree_.branch(a.branch).length() || !prefixes_->make_room(2)) {
      return;
    }
    {
      StepTransaction step(runner_->pool());
      step.add(a.cache, 1);
      step.begin();
    }
    ASSERT_TRUE(a.cache.poisoned());
    const int before = prefixes_->stats().anchors;
    prefixes_->keep(tokens(a, a.cache.position()), a.cache);
    ASSERT_EQ(prefixes_->stats().anchors, before);
    ++counts_.failed;
  }

  void check_books() {
    const PrefixCacheStats stats = prefixes_->stats();
    ASSERT_LE(stats.blocks, runner_->pool().blocks_in_use());
    ASSERT_EQ(runner_->pool().slots_in_use(), static_cast<int>(live_.size()));
    ASSERT_TRUE(stats.anchors == 0 || stats.bytes <= stats.budget_bytes);
    ASSERT_TRUE(stats.disk->writing);
  }

  void collect_counts() {
    const PrefixCacheStats stats = prefixes_->stats();
    counts_.evictions += static_cast<int>(stats.evictions);
    counts_.loads += static_cast<int>(stats.disk->loads);
  }

  const Case& case_;
  std::mt19937& random_;
  const TokenTree& tree_;
  test::TempDir dir_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<PrefixCache> prefixes_;
  std::list<Live> live_;
  Counts counts_;
};

class PrefixProperty : public testing::TestWithParam<Case> {
 protected:
  static void run(int n_ops) {
    std::mt19937 random(20260402);
    const TokenTree tree(GetParam(), random);
    Lives lives(GetParam(), random, tree);
    lives.run(n_ops);
    ASSERT_FALSE(HasFatalFailure());
    lives.finish();

    const Counts& n = lives.counts();
    fmt::print(
        "{} operations: {} rows; {} starts, {} of them behind an anchor; {} forks, {} rewinds, {} cancelled, {} "
        "failed; "
        "{} evictions, {} clears, {} anchors read from disk, {} restarts\n",
        n_ops, n.rows, n.starts, n.hits, n.forks, n.rewinds, n.cancels, n.failed, n.evictions, n.clears, n.loads,
        n.restarts);
    for (const int count : {n.rows, n.starts, n.hits, n.forks, n.rewinds, n.cancels, n.failed, n.evictions, n.clears,
                            n.loads, n.restarts}) {
      EXPECT_GT(count, n_ops / 200);
    }
  }
};

TEST_P(PrefixProperty, EveryRowIsThatOfAFreshRun) { run(600); }

// As long as it takes: --gtest_also_run_disabled_tests --gtest_filter=*TenThousand*
TEST_P(PrefixProperty, DISABLED_EveryRowOfTenThousandOperationsIsThatOfAFreshRun) { run(10000); }

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Backends, PrefixProperty,
                         testing::Values(Case{"reference_f32", BackendKind::kReference, false, KvType::kF32},
                                         Case{"reference_packed_sim", BackendKind::kReference, true, KvType::kPacked},
                                         Case{"cpu_f32", BackendKind::kCpu, false, KvType::kF32},
                                         Case{"cpu_packed_sim", BackendKind::kCpu, true, KvType::kPacked}),
                         case_name);

}  // namespace
}  // namespace fathom
