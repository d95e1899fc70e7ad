// Whatever happens to a sequence (chunks, companions, forks, snapshots, rewinds, failed and dropped steps), the logits
// of every row are those of a fresh run over its tokens, bit for bit.
//
// The tokens come from a tree: a trunk, and branches that leave it at many positions and go on with tokens of their
// own. Fresh runs over all of them are made once. A sequence may change to any branch that agrees with its past, so
// rows that are written again after a step back differ from those that lay there before.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/tracing_ops.h"
#include "cache/step_transaction.h"
#include "core/error.h"
#include "engine/model_runner.h"
#include "model/config_reader.h"
#include "token_tree.h"

namespace fathom {
namespace {

constexpr int kHistories = 1000;
constexpr int kOpsPerHistory = 9;
constexpr int kMaxLive = 4;
constexpr int kMaxKept = 3;  // snapshots of one history
constexpr int kAnchorPositions[] = {1, 5, 15, 16, 31, 32, 90, 120, 126, 127, 128, 131, 140, 200, 250, 255, 256, 260};

struct Live {
  SequenceCache cache;
  int branch;
};

struct Kept {
  Snapshot snapshot;
  int branch;
};

// What the histories did, so that a test that does nothing fails.
struct Counts {
  int rows = 0, steps = 0, forks = 0, snapshots = 0, restores = 0, rewinds = 0, resets = 0, failed = 0, dropped = 0;
  int branch_changes = 0, crossings = 0;
};

class Histories {
 public:
  Histories(const Case& c, std::mt19937& random, const TokenTree& tree) : random_(random), tree_(tree) {
    const RunnerConfig config =
        runner_config(c, 24, static_cast<int>(std::size(kAnchorPositions)) + kMaxLive + kMaxKept);
    auto source = WeightSource::open(config.model_path);
    const ModelConfig model = read_config(*source);
    auto ops = std::make_unique<TracingOps>(
        make_ops(model, config.backend),
        TraceSink{.floats = [this](const std::string&, HostMat<const float>) { fail_if_due(); },
                  .ints = [this](const std::string&, HostMat<const int32_t>) { fail_if_due(); }});
    runner_ = std::make_unique<ModelRunner>(std::move(source), model, std::move(ops), config);
    fill_with_garbage();
    make_anchors();
  }

  void run_one() {
    live_.clear();
    kept_.clear();
    start_from_anchor();
    start_from_anchor();
    for (int i = 0; i < kOpsPerHistory; ++i) {
      one_op();
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }

  void finish() {
    live_.clear();
    kept_.clear();
    anchors_.clear();
    EXPECT_EQ(runner_->pool().bytes_in_use(), 0U);
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  template <class T>
  T& pick(std::list<T>& from) {
    return *std::next(from.begin(), below(static_cast<int>(from.size())));
  }

  // Bytes that nobody wrote decode to NaN, in floats and in codes.
  void fill_with_garbage() {
    const CacheLimits& limits = runner_->pool().limits();
    const CacheLayout& layout = runner_->pool().layout();
    runner_->ops().reserve_cache(limits.max_slots, limits.max_blocks);
    const std::vector<std::byte> garbage(std::max(layout.slot_bytes, layout.block_bytes), std::byte{0xFF});
    for (int slot = 0; slot < limits.max_slots; ++slot) {
      runner_->ops().write_slot(slot, std::span(garbage).first(layout.slot_bytes));
    }
    for (int block = 0; block < limits.max_blocks; ++block) {
      runner_->ops().write_block(block, std::span(garbage).first(layout.block_bytes));
    }
  }

  // Snapshots along the trunk, so that a short history reaches every kind of boundary.
  void make_anchors() {
    Live trunk{runner_->make_sequence(), 0};
    for (const int position : kAnchorPositions) {
      run_step({&trunk}, {position - trunk.cache.position()});
      anchors_.push_back({trunk.cache.snapshot(), 0});
    }
  }

  void start_from_anchor() {
    live_.push_back({runner_->make_sequence(), 0});
    if (below(8) > 0) {
      live_.back().cache.restore(pick(anchors_).snapshot);
    }
  }

  void one_op() {
    Live& a = pick(live_);
    const int op = below(16);
    if (a.cache.poisoned()) {
      return op < 4 ? reset(a) : restore(a);
    }
    switch (op) {
      case 0:
        return reset(a);
      case 1:
      case 2:
        return fork(a);
      case 3:
        return keep(a);
      case 4:
      case 5:
        return restore(a);
      case 6:
      case 7:
      case 8:
        return rewind(a);
      case 9:
        return drop_step();
      case 10:
        return step(/*fails=*/true);
      default:
        return step(/*fails=*/false);
    }
  }

  void reset(Live& a) {
    a.cache.reset();
    ++counts_.resets;
  }

  void fork(Live& a) {
    if (live_.size() < kMaxLive) {
      live_.push_back({a.cache.fork(), a.branch});
      ++counts_.forks;
    }
  }

  void keep(Live& a) {
    if (kept_.size() == kMaxKept) {
      kept_.pop_front();
    }
    kept_.push_back({a.cache.snapshot(), a.branch});
    ++counts_.snapshots;
  }

  void restore(Live& a) {
    const Kept& from = kept_.empty() || below(3) == 0 ? pick(anchors_) : pick(kept_);
    a.cache.restore(from.snapshot);
    a.branch = from.branch;
    ++counts_.restores;
  }

  void rewind(Live& a) {
    const int floor = a.cache.rewind_floor();
    a.cache.rewind(floor + below(a.cache.position() - floor + 1));
    ++counts_.rewinds;
  }

  // Some sequences and how many rows each of them gets; they may have changed to another branch.
  void choose_parts(std::vector<Live*>& parts, std::vector<int>& n_rows) {
    for (Live& a : live_) {
      if (a.cache.poisoned() || below(4) == 0) {
        continue;
      }
      const int position = a.cache.position();
      const std::vector<int> branches = tree_.continuations(a.branch, position);
      if (branches.empty()) {
        continue;
      }
      const int branch = branches[static_cast<size_t>(below(static_cast<int>(branches.size())))];
      counts_.branch_changes += branch != a.branch ? 1 : 0;
      a.branch = branch;
      parts.push_back(&a);
      n_rows.push_back(
          std::min(below(12) == 0 ? 1 + below(40) : 1 + below(5), tree_.branch(branch).length() - position));
    }
  }

  void step(bool fails) {
    std::vector<Live*> parts;
    std::vector<int> n_rows;
    choose_parts(parts, n_rows);
    if (parts.empty()) {
      return;
    }
    fail_in_ = fails ? 1 + below(70) : 0;
    run_step(parts, n_rows);
    fail_in_ = 0;
  }

  // Planned and reserved, but never begun.
  void drop_step() {
    std::vector<Live*> parts;
    std::vector<int> n_rows;
    choose_parts(parts, n_rows);
    StepTransaction step(runner_->pool());
    for (size_t i = 0; i < parts.size(); ++i) {
      step.add(parts[i]->cache, n_rows[i]);
    }
    ++counts_.dropped;
  }

  void run_step(const std::vector<Live*>& parts, const std::vector<int>& n_rows) {
    std::vector<StepInput> inputs;
    std::vector<int> starts;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto start = static_cast<size_t>(parts[i]->cache.position());
      const auto n = static_cast<size_t>(n_rows[i]);
      starts.push_back(parts[i]->cache.position());
      inputs.push_back({.sequence = &parts[i]->cache,
                        .tokens = std::span(tree_.branch(parts[i]->branch).tokens).subspan(start, n),
                        .n_logits = n_rows[i]});
    }
    HostMat<const float> logits;
    try {
      logits = runner_->run(inputs);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDevice) << error.what();
      for (size_t i = 0; i < parts.size(); ++i) {
        ASSERT_TRUE(parts[i]->cache.poisoned());
        ASSERT_EQ(parts[i]->cache.position(), starts[i]);
      }
      ++counts_.failed;
      return;
    }
    compare(parts, starts, n_rows, logits);
  }

  void compare(const std::vector<Live*>& parts, const std::vector<int>& starts, const std::vector<int>& n_rows,
               HostMat<const float> logits) {
    ++counts_.steps;
    int row = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_EQ(parts[i]->cache.position(), starts[i] + n_rows[i]);
      counts_.crossings += starts[i] / 128 != (starts[i] + n_rows[i]) / 128 ? 1 : 0;
      for (int t = starts[i]; t < starts[i] + n_rows[i]; ++t, ++row) {
        ASSERT_TRUE(tree_.is_row_equal(parts[i]->branch, t, logits.row(row)))
            << "branch " << parts[i]->branch << ", position " << t << " of a step of " << n_rows[i] << " rows from "
            << starts[i];
        ++counts_.rows;
      }
    }
  }

  void fail_if_due() {
    if (fail_in_ > 0 && --fail_in_ == 0) {
      throw Error(ErrorCode::kDevice, "a failure made by this test");
    }
  }

  std::mt19937& random_;
  const TokenTree& tree_;
  std::unique_ptr<ModelRunner> runner_;
  std::list<Kept> anchors_;
  std::list<Live> live_;
  std::list<Kept> kept_;
  int fail_in_ = 0;  // outputs of ops until one of them throws; 0: none
  Counts counts_;
};

class CacheProperty : public testing::TestWithParam<Case> {};

bool is_in_this_build(BackendKind kind) {
  const auto source = WeightSource::open((std::filesystem::path(FATHOM_TEST_DATA_DIR) / "oracle/mini").string());
  try {
    (void)make_ops(read_config(*source), {.kind = kind});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) {
      throw;
    }
    return false;
  }
  return true;
}

TEST_P(CacheProperty, EveryRowIsThatOfAFreshRun) {
  if (!is_in_this_build(GetParam().backend)) {
    GTEST_SKIP() << "this build has no " << backend_name(GetParam().backend) << " backend";
  }
  std::mt19937 random(20260401);
  const TokenTree tree(GetParam(), random);
  Histories histories(GetParam(), random, tree);
  for (int i = 0; i < kHistories; ++i) {
    SCOPED_TRACE(fmt::format("history {}", i));
    histories.run_one();
    ASSERT_FALSE(HasFatalFailure());
  }
  histories.finish();

  const Counts& n = histories.counts();
  fmt::print(
      "{} rows in {} steps, {} over a block boundary; {} forks, {} snapshots, {} restores, {} rewinds, {} resets, "
      "{} failed steps, {} dropped ones, {} changes of branch\n",
      n.rows, n.steps, n.crossings, n.forks, n.snapshots, n.restores, n.rewinds, n.resets, n.failed, n.dropped,
      n.branch_changes);
  for (const int count : {n.rows, n.steps, n.crossings, n.forks, n.snapshots, n.restores, n.rewinds, n.resets, n.failed,
                          n.dropped, n.branch_changes}) {
    EXPECT_GT(count, 100);
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Backends, CacheProperty,
                         testing::Values(Case{"reference_f32", BackendKind::kReference, false, KvType::kF32},
                                         Case{"reference_f32_sim", BackendKind::kReference, true, KvType::kF32},
                                         Case{"reference_packed_sim", BackendKind::kReference, true, KvType::kPacked},
                                         Case{"cpu_f32", BackendKind::kCpu, false, KvType::kF32},
                                         Case{"cpu_f32_sim", BackendKind::kCpu, true, KvType::kF32},
                                         Case{"cpu_packed_sim", BackendKind::kCpu, true, KvType::kPacked}),
                         case_name);

}  // namespace
}  // namespace fathom
