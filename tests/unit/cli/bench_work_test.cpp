#include "cli/bench_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backend/profiling_ops.h"
#include "cli/synthetic.h"
#include "engine/model_runner.h"
#include "quant/random_weights.h"
#include "quant/synthetic_source.h"

namespace fathom::cli {
namespace {

// A model's tensors without their bytes.
class ListedSource final : public WeightSource {
 public:
  explicit ListedSource(const std::vector<TensorSpec>& tensors) {
    for (const TensorSpec& spec : tensors) {
      Weight w;
      w.dtype = spec.dtype;
      w.out_dim = spec.out_dim;
      w.in_dim = spec.in_dim;
      EXPECT_TRUE(add_tensor(spec.name, w, std::vector<WeightSlice>(static_cast<size_t>(spec.count))));
    }
  }
  [[nodiscard]] const std::string& path() const noexcept override { return path_; }

 private:
  std::string path_ = "listed";
};

SyntheticModel plan(const char* shape, const char* experts) {
  SyntheticOptions options;
  options.shape = shape;
  options.experts = experts;
  return plan_synthetic(options);
}

// Known sizes: 26.5 GFLOP with the head's 1.06, and 9.55 GB with hyper-connections (67 MB) and routers
// (90 MB) in F16, which are F32 here.
TEST(TokenWork, FlashIsAsPublished) {
  const SyntheticModel flash = plan("flash", "IQ2_XXS/Q2_K");
  const ListedSource source(flash.tensors);
  const TokenWork work = count_work(source, flash.config, 1);
  EXPECT_NEAR(work.operations, 26.5e9 - 1.06e9, 0.1e9);
  EXPECT_NEAR(work.weight_bytes, 9.55e9 + 0.157e9, 0.02e9);
}

TEST(TokenWork, SeveralSequencesShareWhatTheyHaveInCommon) {
  const SyntheticModel flash = plan("flash", "IQ2_XXS/Q2_K");
  const ListedSource source(flash.tensors);
  const double alone = count_work(source, flash.config, 1).weight_bytes;
  double previous = alone;
  for (const int n : {2, 16, 64, 512}) {
    const double each = count_work(source, flash.config, n).weight_bytes;
    EXPECT_LT(each, previous) << n;
    previous = each;
  }
  uint64_t all = 0;
  for (const TensorSpec& tensor : flash.tensors) {
    all += tensor.n_bytes();
  }
  EXPECT_LT(previous * 512, static_cast<double>(all)) << "a step reads no weight twice";
  EXPECT_GT(previous * 512, 0.95 * static_cast<double>(all) * 80.0 / 81.0);
}

TEST(TokenWork, LeavesOutModulesThatDoNotRun) {
  SyntheticModel tiny = plan("tiny", "Q4_K");
  const double work = count_work(ListedSource(tiny.tensors), tiny.config, 1).operations;
  TensorSpec extra = tiny.tensors[1];
  extra.name = "blk.4.attn_q_a.weight";
  tiny.tensors.push_back(extra);
  EXPECT_EQ(count_work(ListedSource(tiny.tensors), tiny.config, 1).operations, work);
}

class TinyRun {
 public:
  TinyRun() : random_(1, tiny_.config.n_experts), pool_({.threads = 1}) {
    config_.backend.kind = BackendKind::kReference;
    config_.backend.max_rows = 8;
    config_.max_context = 64;
  }

  [[nodiscard]] const SyntheticModel& model() const { return tiny_; }
  [[nodiscard]] std::unique_ptr<Ops> make_backend() const { return make_ops(tiny_.config, config_.backend); }
  [[nodiscard]] std::unique_ptr<ModelRunner> make_runner(std::unique_ptr<Ops> ops) {
    return std::make_unique<ModelRunner>(make_synthetic_source(tiny_.tensors, SyntheticMemory::kOwn, random_, pool_),
                                         tiny_.config, std::move(ops), config_);
  }
  static std::vector<float> decode_one(ModelRunner& runner) {
    SequenceCache sequence = runner.make_sequence();
    const TokenId token = 7;
    const StepInput input{.sequence = &sequence, .tokens = {&token, 1}, .n_logits = 1};
    const auto logits = runner.run({&input, 1}).row(0);
    return {logits.begin(), logits.end()};
  }

 private:
  SyntheticModel tiny_ = plan("tiny", "Q8_0");
  RandomWeights random_;
  ThreadPool pool_;
  RunnerConfig config_;
};

TEST(ProfilingOps, ChangesNothing) {
  TinyRun tiny;
  const auto plain = tiny.make_runner(tiny.make_backend());
  const auto profiled = tiny.make_runner(std::make_unique<ProfilingOps>(tiny.make_backend()));
  EXPECT_EQ(TinyRun::decode_one(*profiled), TinyRun::decode_one(*plain));
}

// Counted from the tensors, and counted op by op while a token is decoded.
TEST(ProfilingOps, CountsWhatTheTensorsTell) {
  TinyRun tiny;
  auto profiling = std::make_unique<ProfilingOps>(tiny.make_backend());
  ProfilingOps& profiler = *profiling;
  const auto runner = tiny.make_runner(std::move(profiling));
  TinyRun::decode_one(*runner);
  const std::vector<OpProfile> profile = profiler.take();
  EXPECT_TRUE(std::ranges::is_sorted(profile, std::greater<>{}, &OpProfile::seconds));

  double bytes = 0.0;
  double operations = 0.0;
  for (const OpProfile& p : profile) {
    EXPECT_GT(p.seconds, 0.0) << p.op;
    bytes += p.weight_bytes;
    operations += p.op == "matmul output" ? 0.0 : p.operations;
  }
  // The tensors' count has the vectors too.
  const TokenWork work = count_work(runner->source(), tiny.model().config, 1);
  EXPECT_NEAR(bytes, work.weight_bytes, 0.03 * work.weight_bytes);
  EXPECT_NEAR(operations, work.operations, 0.01 * work.operations);

  const auto calls = [&](std::string_view op) {
    const auto found = std::ranges::find(profile, op, &OpProfile::op);
    return found == profile.end() ? 0 : static_cast<int>(found->calls);
  };
  EXPECT_EQ(calls("experts"), 4);
  EXPECT_EQ(calls("attend"), 4);
  EXPECT_EQ(calls("matmul attn_q_a"), 4);
  EXPECT_EQ(calls("matmul output"), 1);
  EXPECT_EQ(calls("compress"), 2);
  EXPECT_EQ(calls("select_entries"), 1);
  EXPECT_TRUE(profiler.take().empty()) << "measuring starts anew";
}

}  // namespace
}  // namespace fathom::cli
