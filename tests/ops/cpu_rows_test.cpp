// Hyper-connections, norms and router of the cpu backend: within float32's own error of the reference, and bit for bit
// the same for any rows beside them, number of threads and instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/reference/reference_ops.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/owned_weight.h"

namespace fathom {
namespace {

using test::OwnedWeight;

constexpr int kRows = 29;
constexpr int kVocab = 11;
constexpr double kEpsilon = 0x1p-24;

ModelConfig make_config(int hidden, int experts) {
  ModelConfig c;
  c.n_layers = 1;
  c.hidden = hidden;
  c.vocab = kVocab;
  c.context_length = 1024;
  c.n_heads = 1;
  c.head_dim = 16;
  c.rope_dim = 4;
  c.q_lora_rank = 32;
  c.o_lora_rank = 8;
  c.o_groups = 1;
  c.window = 8;
  c.compress_ratios = {0};
  c.index_heads = 1;
  c.index_dim = 4;
  c.index_topk = 4;
  c.n_experts = experts;
  c.n_experts_used = 6;
  c.expert_ffn = 32;
  c.routed_scale = 2.5F;
  c.swiglu_limit = {10};
  c.shared_swiglu_limit = {10};
  return c;
}

std::vector<float> random_values(size_t n, unsigned seed, float mean = 0.0F, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> v(n);
  std::generate(v.begin(), v.end(), [&] { return normal(random); });
  return v;
}

OwnedWeight random_weight(const char* name, int out, int in, unsigned seed, float mean, float deviation) {
  return {name, out, in, random_values(static_cast<size_t>(out) * static_cast<size_t>(in), seed, mean, deviation)};
}

OwnedWeight expert_table(int experts) {
  std::vector<int32_t> ids;
  for (int token = 0; token < kVocab; ++token) {
    for (int i = 0; i < 6; ++i) {
      ids.push_back((token * 7 + i * 3) % experts);
    }
  }
  return {"ids", kVocab, 6, ids};
}

struct Outputs {
  std::vector<float> post, comb, x, streams, head, normed, weights, hashed_weights;
  std::vector<int32_t> ids, hashed_ids;
};

BackendOptions options(const std::string& isa, int threads) {
  return {.kind = BackendKind::kCpu,
          .threads = threads,
          .isa = isa,
          .max_rows = kRows,
          .cache = {.activation_sim = false, .block_tokens = 128}};
}

// All ops on rows [first, first + n) of the same inputs.
class OpsRun {
 public:
  OpsRun(std::unique_ptr<Ops> ops, const ModelConfig& config, int first, int n)
      : ops_(std::move(ops)), config_(config), first_(first), n_(n), d_(config.hidden) {
    for (int r = 0; r < n; ++r) {
      tokens_.push_back((first + r) % kVocab);
      if (r % 3 != 1) {
        logit_rows_.push_back(r);  // runs of one and two rows
      }
    }
    slice_ = {.slot = 0, .blocks = blocks_, .start = first, .first_row = 0, .n_rows = n};
    ops_->reserve_cache(1, 1);
    ops_->begin_step({.tokens = tokens_, .sequences = {&slice_, 1}, .logit_rows = logit_rows_});
  }

  Outputs run() {
    Outputs out;
    const DeviceMat<float> streams = input(4 * d_, 1, 3.0F);
    hyper_connections(streams, out);
    route(out);
    return out;
  }

 private:
  DeviceMat<float> input(int cols, unsigned seed, float deviation) {
    const DeviceMat<float> m = ops_->make_f32(n_, cols);
    const auto values = random_values(static_cast<size_t>(kRows) * static_cast<size_t>(cols), seed, 0.1F, deviation);
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(first_) * cols, static_cast<ptrdiff_t>(n_) * cols,
                m.device_ptr());
    return m;
  }
  [[nodiscard]] Weight up(const OwnedWeight& w, WeightRole role = WeightRole::kVector) {
    return ops_->upload(w.weight(), role);
  }
  [[nodiscard]] std::vector<float> read(DeviceMat<const float> m) {
    std::vector<float> out(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
    ops_->read_f32(m, {out.data(), m.rows(), m.cols()});
    return out;
  }
  [[nodiscard]] std::vector<int32_t> read(DeviceMat<const int32_t> m) {
    std::vector<int32_t> out(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
    ops_->read_i32(m, {out.data(), m.rows(), m.cols()});
    return out;
  }

  void hyper_connections(DeviceMat<float> streams, Outputs& out) {
    const float small = 1.0F / std::sqrt(static_cast<float>(4 * d_));
    const OwnedWeight fn = random_weight("fn", 24, 4 * d_, 2, 0.0F, small);
    const OwnedWeight base = random_weight("base", 1, 24, 3, 0.0F, 1.0F);
    const OwnedWeight scale = random_weight("scale", 1, 3, 4, 1.0F, 0.2F);
    const OwnedWeight gain = random_weight("gain", 1, d_, 5, 1.0F, 0.2F);
    const OwnedWeight head_fn = random_weight("head_fn", 4, 4 * d_, 6, 0.0F, small);
    const OwnedWeight head_base = random_weight("head_base", 1, 4, 7, 0.0F, 1.0F);
    const OwnedWeight head_scale = random_weight("head_scale", 1, 1, 8, 1.0F, 0.2F);
    const Weight norm = up(gain);
    const HcMix mix{ops_->make_f32(n_, 4), ops_->make_f32(n_, 16)};
    const DeviceMat<float> x = ops_->make_f32(n_, d_);
    ops_->hc_enter({up(fn, WeightRole::kMixer), up(base), up(scale)}, norm, streams, mix, x);
    out.post = read(mix.post);
    out.comb = read(mix.comb);
    out.x = read(x);
    const DeviceMat<float> normed = ops_->make_f32(n_, d_);
    ops_->rms_norm(norm, x, normed);
    out.normed = read(normed);
    ops_->hc_exit(input(d_, 9, 1.0F), mix, streams);
    out.streams = read(streams);
    const DeviceMat<float> head = ops_->make_f32(static_cast<int>(logit_rows_.size()), d_);
    ops_->hc_collapse({up(head_fn, WeightRole::kMixer), up(head_base), up(head_scale)}, norm, streams, head);
    out.head = read(head);
  }

  void route(Outputs& out) {
    const float small = 1.0F / std::sqrt(static_cast<float>(d_));
    const OwnedWeight gate = random_weight("gate", config_.n_experts, d_, 10, 0.0F, small);
    const OwnedWeight bias = random_weight("bias", 1, config_.n_experts, 11, 0.0F, 0.3F);
    const OwnedWeight table = expert_table(config_.n_experts);
    const DeviceMat<float> x = input(d_, 12, 2.0F);
    const TopK chosen{ops_->make_i32(n_, 6), ops_->make_f32(n_, 6)};
    const Weight mixer = up(gate, WeightRole::kMixer);
    ops_->route(0, {mixer, up(bias), {}}, x, chosen);
    out.ids = read(chosen.ids);
    out.weights = read(chosen.weights);
    ops_->route(0, {mixer, {}, up(table, WeightRole::kIdTable)}, x, chosen);
    out.hashed_ids = read(chosen.ids);
    out.hashed_weights = read(chosen.weights);
  }

  std::unique_ptr<Ops> ops_;
  ModelConfig config_;
  int first_, n_, d_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> logit_rows_;
  std::vector<int32_t> blocks_ = {0};
  SequenceSlice slice_;
};

struct Case {
  std::string isa;
  int hidden;
  int experts;
};

class CpuRows : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      const auto ops = std::make_unique<cpu::CpuOps>(config_, options(GetParam().isa, 1));
      ASSERT_EQ(ops->isa(), GetParam().isa);
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  [[nodiscard]] Outputs run(int threads, int first = 0, int n = kRows) const {
    return OpsRun(std::make_unique<cpu::CpuOps>(config_, options(GetParam().isa, threads)), config_, first, n).run();
  }

  ModelConfig config_ = make_config(GetParam().hidden, GetParam().experts);
};

// The worst difference in units of the last place of values of magnitude `size`.
double worst_ulps(const std::vector<float>& got, const std::vector<float>& expected, double size) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto e = static_cast<double>(expected[i]);
    const double difference = std::abs(static_cast<double>(got[i]) - e);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference / (kEpsilon * std::max(size, std::abs(e))));
  }
  return worst;
}

TEST_P(CpuRows, AgreeWithTheReference) {
  const Outputs got = run(2);
  const Outputs expected =
      OpsRun(std::make_unique<reference::ReferenceOps>(config_, options("", 2)), config_, 0, kRows).run();
  // A dot product of unit variance over lanes and blocks of 512 is off by a few units; the exponentials of Sinkhorn and
  // the norms behind it keep that order.
  EXPECT_LE(worst_ulps(got.post, expected.post, 1.0), 40);
  EXPECT_LE(worst_ulps(got.comb, expected.comb, 1.0), 40);
  EXPECT_LE(worst_ulps(got.x, expected.x, 1.0), 60);
  EXPECT_LE(worst_ulps(got.normed, expected.normed, 1.0), 60);
  EXPECT_LE(worst_ulps(got.streams, expected.streams, 4.0), 60);
  EXPECT_LE(worst_ulps(got.head, expected.head, 1.0), 60);
  EXPECT_EQ(got.ids, expected.ids);
  EXPECT_LE(worst_ulps(got.weights, expected.weights, 1.0), 40);
  EXPECT_EQ(got.hashed_ids, expected.hashed_ids);
  EXPECT_LE(worst_ulps(got.hashed_weights, expected.hashed_weights, 1.0), 40);
}

template <class T>
void expect_rows(const std::vector<T>& part, const std::vector<T>& all, int first, int n, const char* what) {
  const size_t cols = part.size() / static_cast<size_t>(n);
  EXPECT_EQ(std::memcmp(part.data(), all.data() + static_cast<size_t>(first) * cols, part.size() * sizeof(T)), 0)
      << what << " of rows from " << first;
}

TEST_P(CpuRows, CompanionsThreadsAndInstructionSetsChangeNoBit) {
  const Outputs all = OpsRun(std::make_unique<cpu::CpuOps>(config_, options("scalar", 1)), config_, 0, kRows).run();
  const std::vector<std::pair<int, int>> parts = {{0, 1}, {1, 1}, {5, 2}, {9, 20}, {0, kRows}};
  for (const int threads : {1, 2, 5, 8}) {
    for (const auto& [first, n] : parts) {
      const Outputs part = run(threads, first, n);
      expect_rows(part.post, all.post, first, n, "post");
      expect_rows(part.comb, all.comb, first, n, "comb");
      expect_rows(part.x, all.x, first, n, "x");
      expect_rows(part.normed, all.normed, first, n, "norm");
      expect_rows(part.streams, all.streams, first, n, "streams");
      expect_rows(part.weights, all.weights, first, n, "weights");
      expect_rows(part.ids, all.ids, first, n, "ids");
      expect_rows(part.hashed_weights, all.hashed_weights, first, n, "hashed weights");
      if (first == 0) {
        EXPECT_EQ(std::memcmp(part.head.data(), all.head.data(), part.head.size() * sizeof(float)), 0) << "head";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuRows,
                         testing::Values(Case{"scalar", 70, 9}, Case{"avx2", 70, 9}, Case{"avx512", 70, 9},
                                         Case{"amx", 70, 9}, Case{"avx2", 1, 6}, Case{"avx512", 1, 6},
                                         Case{"scalar", 4096, 256}, Case{"avx2", 4096, 256}, Case{"avx512", 4096, 256}),
                         [](const auto& tested) {
                           return fmt::format("{}_{}_{}", tested.param.isa, tested.param.hidden, tested.param.experts);
                         });

TEST(CpuOps, RejectsMoreStreamsThanItsKernelsHold) {
  ModelConfig config = make_config(16, 8);
  config.hc = 9;
  EXPECT_ERROR(cpu::CpuOps(config, options("", 1)), ErrorCode::kUnsupported,
               "cpu backend: hyper-connections of 9 streams, expected at most 8");
}

}  // namespace
}  // namespace fathom
