// What every op produces inside the model, against the insides of the independent implementation: when logits differ,
// the first name this test prints says which op is wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backend/tracing_ops.h"
#include "core/packed_rows.h"
#include "engine/model_runner.h"
#include "model/config_reader.h"
#include "support/oracle.h"

namespace fathom {
namespace {

using test::Fixture;
using test::ReferenceTensors;

constexpr float kTolerance = 1e-4F;

struct Trace {
  std::vector<std::string> order;
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<int32_t>> ints;
};

// The compressed entries (or index keys) of one layer, read back from the sequence's first blocks.
std::vector<float> read_entries(Ops& ops, const ModelConfig& config, int layer, bool index, int n) {
  const CacheLayout& layout = ops.cache_layout();
  const LayerCache& cache = layout.layers[static_cast<size_t>(layer)];
  const bool packed = layout.options.kv_type == KvType::kPacked;
  const size_t width = static_cast<size_t>(index ? config.index_dim : config.head_dim);
  const size_t row_bytes = index ? layout.index_row_bytes : layout.kv_row_bytes;
  std::vector<float> rows(static_cast<size_t>(n) * width);
  std::vector<std::byte> block(layout.block_bytes);
  for (int c = 0; c < n; ++c) {
    // A pool that serves one sequence hands its blocks out in order.
    if (c % cache.rows_per_block == 0) {
      ops.read_block(c / cache.rows_per_block, block);
    }
    const size_t offset =
        (index ? cache.index_offset : cache.kv_offset) + static_cast<size_t>(c % cache.rows_per_block) * row_bytes;
    const std::span<const std::byte> bytes(block.data() + offset, row_bytes);
    const std::span<float> row(rows.data() + static_cast<size_t>(c) * width, width);
    if (!packed) {
      std::memcpy(row.data(), bytes.data(), row_bytes);
    } else if (index) {
      unpack_index_row({config.index_dim}, bytes, row);
    } else {
      unpack_kv_row({config.nope_dim(), config.rope_dim}, bytes, row);
    }
  }
  return rows;
}

struct Traced {
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<Trace> trace;
};

// Runs `tokens` in one step and keeps everything.
Traced run_traced(const Fixture& fixture, const std::vector<TokenId>& tokens, const CacheOptions& cache) {
  auto source = WeightSource::open(fixture.dir.string());
  const ModelConfig config = read_config(*source);
  auto trace = std::make_unique<Trace>();
  RunnerConfig runner_config;
  runner_config.backend.kind = BackendKind::kReference;
  runner_config.backend.max_rows = static_cast<int>(tokens.size());
  runner_config.backend.cache = cache;
  runner_config.max_context = 1024;
  const auto keep = [](auto& into, Trace& t, const std::string& name, auto rows) {
    t.order.push_back(name);
    auto& values = into[name];
    for (int r = 0; r < rows.rows(); ++r) {
      values.insert(values.end(), rows.row(r).begin(), rows.row(r).end());
    }
  };
  auto ops = std::make_unique<TracingOps>(
      make_ops(config, runner_config.backend),
      TraceSink{.floats = [t = trace.get(), keep](const std::string& name,
                                                  HostMat<const float> m) { keep(t->floats, *t, name, m); },
                .ints = [t = trace.get(), keep](const std::string& name,
                                                HostMat<const int32_t> m) { keep(t->ints, *t, name, m); }});
  auto runner = std::make_unique<ModelRunner>(std::move(source), config, std::move(ops), runner_config);
  SequenceCache sequence = runner->make_sequence();
  const StepInput input{.sequence = &sequence, .tokens = tokens, .n_logits = static_cast<int>(tokens.size())};
  runner->run({&input, 1});
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const int ratio = config.ratio(layer);
    const int n = visible_entries(static_cast<int>(tokens.size()) - 1, ratio);
    if (n > 0) {
      trace->floats[fmt::format("L{}.comp_kv", layer)] = read_entries(runner->ops(), config, layer, false, n);
    }
    if (n > 0 && ratio == 4) {
      trace->floats[fmt::format("L{}.index_kv", layer)] = read_entries(runner->ops(), config, layer, true, n);
    }
  }
  return {std::move(runner), std::move(trace)};
}

// The reference has x before the sublayer's norm; what the op gives is after it.
std::vector<float> normed(const ModelRunner& runner, const std::string& norm, ReferenceTensors::Array<float> x) {
  const Weight* gain = runner.source().find(norm);
  std::vector<float> g(static_cast<size_t>(x.cols()));
  std::memcpy(g.data(), gain->slices[0].codes, g.size() * sizeof(float));
  for (int r = 0; r < x.rows(); ++r) {
    float* row = x.values.data() + static_cast<size_t>(r) * g.size();
    double squares = 0.0;
    for (size_t i = 0; i < g.size(); ++i) {
      squares += static_cast<double>(row[i]) * row[i];
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(g.size()) + 1e-6);
    for (size_t i = 0; i < g.size(); ++i) {
      row[i] = static_cast<float>(row[i] * scale * g[i]);
    }
  }
  return std::move(x.values);
}

float worst(const std::vector<float>& got, const std::vector<float>& expected) {
  float w = 0.0F;
  for (size_t i = 0; i < expected.size(); ++i) {
    w = std::max(w, std::abs(got[i] - expected[i]));
  }
  return w;
}

class Internals : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    dir_ = test::shared_dir("fixtures/oracle/" + GetParam());
    if (dir_.empty()) {
      GTEST_SKIP() << "the full oracle fixtures are not in " << FATHOM_SHARED_DIR;
    }
  }
  std::filesystem::path dir_;
};

TEST_P(Internals, EveryOpAgreesWithTheReference) {
  const ReferenceTensors ref((dir_ / "ref.safetensors").string());
  const Traced traced = run_traced({GetParam(), dir_}, ref.ints("tok.300").values, {.activation_sim = false});
  const auto& runner = traced.runner;
  const auto& trace = traced.trace;
  const auto rows = static_cast<size_t>(ref.floats("det.embed").rows());
  int compared = 0;
  const auto compare = [&](const std::string& name, const std::vector<float>& expected) {
    const std::vector<float>& got = trace->floats.at(name);
    ASSERT_GE(got.size(), expected.size()) << name;
    EXPECT_LE(worst(got, expected), kTolerance) << name;
    ++compared;
  };
  for (int layer = 0; layer < runner->model_config().n_layers; ++layer) {
    const std::string l = fmt::format("L{}.", layer);
    const std::string blk = fmt::format("blk.{}.", layer);
    const auto det = [&](const char* name) { return ref.floats("det." + l + name); };
    compare(l + "attn_in", normed(*runner, blk + "attn_norm.weight", det("attn_in")));
    for (const char* name :
         {"attn_post", "attn_comb", "q_residual", "attn_out", "ffn_post", "ffn_comb", "ffn_out", "out"}) {
      compare(l + name, det(name).values);
    }
    compare(l + "ffn_in", normed(*runner, blk + "ffn_norm.weight", det("ffn_in")));
    for (const char* name : {"comp_kv", "index_kv", "index_q"}) {
      if (ref.has("det." + l + name)) {
        compare(l + name, det(name).values);
      }
    }
    // Sets, not orders: ours are ascending.
    const int k = runner->model_config().n_experts_used;
    const auto expected_ids =
        ref.has("det." + l + "route_idx") ? ref.ints("det." + l + "route_idx").values : std::vector<int32_t>{};
    const auto expected_weights = det("route_w").values;
    for (size_t r = 0; r < rows; ++r) {
      std::map<int32_t, float> expected;
      for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
        expected[expected_ids[r * static_cast<size_t>(k) + i]] = expected_weights[r * static_cast<size_t>(k) + i];
      }
      for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
        const int32_t id = trace->ints.at(l + "route_idx")[r * static_cast<size_t>(k) + i];
        ASSERT_TRUE(expected.contains(id)) << l << "route_idx, row " << r;
        EXPECT_NEAR(trace->floats.at(l + "route_w")[r * static_cast<size_t>(k) + i], expected[id], kTolerance)
            << l << "route_w, row " << r;
      }
    }
    if (ref.has("det." + l + "index_topk")) {
      auto expected = ref.ints("det." + l + "index_topk");
      for (int r = 0; r < expected.rows(); ++r) {
        std::vector<int32_t> want(expected.row(r), expected.row(r) + expected.cols());
        std::erase(want, -1);
        std::sort(want.begin(), want.end());
        const int32_t* row = trace->ints.at(l + "index_topk").data() + static_cast<size_t>(r * expected.cols());
        std::vector<int32_t> got(row, row + expected.cols());
        std::erase(got, -1);
        EXPECT_EQ(got, want) << l << "index_topk, row " << r;
      }
    }
  }
  compare("final_norm", ref.floats("det.final_norm").values);
  fmt::print("{}: {} tensors compared\n", GetParam(), compared);
}

// Quantised values agree code for code (the dequantised numbers are the same floats) for every token before the first
// whose codes a disturbance in the last place changed in the reference itself, and in the first layer that has them for
// all tokens.
TEST_P(Internals, SimulatedCodesAreTheSame) {
  const ReferenceTensors sim((dir_ / "sim.safetensors").string());
  const auto flips = sim.floats("flip_frac.130").values;
  const auto steady =
      static_cast<int>(std::find_if(flips.begin(), flips.end(), [](float f) { return f > 0.0F; }) - flips.begin());
  const Traced traced = run_traced({GetParam(), dir_}, sim.ints("tok.130").values, {.activation_sim = true});
  const auto& runner = traced.runner;
  const auto& trace = traced.trace;
  const ModelConfig& config = runner->model_config();
  int first_layer = -1;
  size_t same = 0;
  size_t all = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const std::string l = fmt::format("L{}.", layer);
    for (const char* name : {"index_q", "index_kv", "comp_kv"}) {
      if (!sim.has("det.130." + l + name)) {
        continue;
      }
      first_layer = first_layer < 0 ? layer : first_layer;
      const auto expected = sim.floats("det.130." + l + name);
      const std::vector<float>& got = trace->floats.at(l + name);
      const int quantised = std::string_view(name) == "comp_kv" ? config.nope_dim() : expected.cols();
      const int tokens_per_row = expected.rows() == 130 ? 1 : config.ratio(layer);
      for (int r = 0; r < expected.rows(); ++r) {
        const float* row = got.data() + static_cast<size_t>(r) * static_cast<size_t>(expected.cols());
        const bool equal = std::equal(row, row + quantised, expected.row(r));
        if (layer == first_layer || (r + 1) * tokens_per_row <= steady) {
          EXPECT_TRUE(equal) << l << name << ", row " << r;
        }
        same += equal ? 1 : 0;
        ++all;
      }
    }
  }
  fmt::print("{}: {} of {} rows of codes are the same; steady up to token {}\n", GetParam(), same, all, steady);
  EXPECT_GE(static_cast<double>(same), 0.9 * static_cast<double>(all));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Internals, testing::Values("mini", "flash", "k256"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace fathom
