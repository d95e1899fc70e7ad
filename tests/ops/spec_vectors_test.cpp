// The test vectors of the model specification (docs/model.md, "Test vectors"), through the ops of the reference
// backend. Each is a calculation by hand on a geometry small enough to write down.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "backend/ops.h"
#include "backend/rope.h"
#include "support/owned_weight.h"

namespace fathom {
namespace {

using test::OwnedWeight;

constexpr float kTolerance = 2e-6F;

// One head of 4 dims, 2 of them rotary, 4 streams of 1 channel.
ModelConfig small_config() {
  ModelConfig c;
  c.n_layers = 1;
  c.hidden = 1;
  c.vocab = 8;
  c.context_length = 1024;
  c.n_heads = 1;
  c.head_dim = 4;
  c.rope_dim = 2;
  c.q_lora_rank = 4;
  c.o_lora_rank = 1;
  c.o_groups = 1;
  c.window = 8;
  c.compress_ratios = {0};
  c.index_heads = 1;
  c.index_dim = 4;
  c.index_topk = 4;
  c.yarn = {.factor = 16.0F, .original_context = 65536};
  c.n_experts = 8;
  c.n_experts_used = 3;
  c.expert_ffn = 1;
  c.routed_scale = 1.5F;
  c.swiglu_limit = {10.0F};
  c.shared_swiglu_limit = {10.0F};
  return c;
}

// A backend with one sequence of `n` tokens at position 0.
class Bench {
 public:
  explicit Bench(const ModelConfig& config, int n = 1)
      : ops(make_ops(config, {.kind = BackendKind::kReference,
                              .threads = 2,
                              .max_rows = 16,
                              .cache = {.activation_sim = false, .block_tokens = 128}})),
        tokens_(static_cast<size_t>(n)) {
    ops->reserve_cache(1, 1);
    slice_ = {.slot = 0, .blocks = blocks_, .start = 0, .first_row = 0, .n_rows = n};
    ops->begin_step({.tokens = tokens_, .sequences = {&slice_, 1}, .logit_rows = {}});
  }

  [[nodiscard]] DeviceMat<float> matrix(int rows, int cols, const std::vector<float>& values = {}) const {
    const DeviceMat<float> m = ops->make_f32(rows, cols);
    std::copy(values.begin(), values.end(), m.device_ptr());
    return m;
  }
  [[nodiscard]] std::vector<float> read(DeviceMat<const float> m) const {
    std::vector<float> out(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
    ops->read_f32(m, {out.data(), m.rows(), m.cols()});
    return out;
  }
  [[nodiscard]] Weight upload(const OwnedWeight& w, WeightRole role = WeightRole::kVector) const {
    return ops->upload(w.weight(), role);
  }

  std::unique_ptr<Ops> ops;

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> blocks_ = {0};
  SequenceSlice slice_;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance = kTolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance) << "at " << i;
  }
}

// Runs hc_enter with mix coefficients that do not depend on the streams (fn = 0): base alone decides.
struct HcRun {
  std::vector<float> post, comb;
};
HcRun run_hc(const Bench& bench, const std::vector<float>& base, DeviceMat<float> streams, HcMix mix) {
  const OwnedWeight fn("fn", 24, 4, std::vector<float>(96, 0.0F));
  const OwnedWeight base_weight("base", 1, 24, base);
  const OwnedWeight scale("scale", 1, 3, std::vector<float>(3, 1.0F));
  const OwnedWeight gain("gain", 1, 1, std::vector<float>{1.0F});
  const HcWeights hc{bench.upload(fn), bench.upload(base_weight), bench.upload(scale)};
  bench.ops->hc_enter(hc, bench.upload(gain), streams, mix, bench.matrix(1, 1));
  return {bench.read(mix.post), bench.read(mix.comb)};
}

TEST(SpecVectors, SinkhornAndStreamUpdate) {
  const Bench bench(small_config());
  std::vector<float> base(24, 0.0F);
  for (int j = 0; j < 4; ++j) {
    for (int k = 0; k < 4; ++k) {
      base[static_cast<size_t>(8 + 4 * j + k)] = 0.25F * static_cast<float>((3 * j + 5 * k) % 7) - (j == k ? 0.5F : 0);
    }
  }
  const DeviceMat<float> streams = bench.matrix(1, 4, {1, 2, 3, 4});
  const HcMix mix{bench.matrix(1, 4), bench.matrix(1, 16)};
  const HcRun run = run_hc(bench, base, streams, mix);
  expect_near(run.comb, {.0801194F, .4759757F, .2109563F, .2329476F, .2109563F, .0801194F, .3369015F, .3720218F,
                         .4759757F, .2980398F, .0801192F, .1458642F, .2329476F, .1458641F, .3720220F, .2491654F});

  const HcMix no_output{bench.matrix(1, 4), mix.comb};
  bench.ops->hc_exit(bench.matrix(1, 1), no_output, streams);
  expect_near(bench.read(streams), {2.861749F, 2.113790F, 2.613205F, 2.411245F}, 3e-6F);
}

TEST(SpecVectors, PreAndPostCoefficients) {
  // m * 0.7 + 0.1 for m = 0.5, -1, 2, 0.
  const std::vector<float> logits = {0.45F, -0.6F, 1.5F, 0.1F};
  std::vector<float> base(24, 0.0F);
  std::copy(logits.begin(), logits.end(), base.begin());
  std::copy(logits.begin(), logits.end(), base.begin() + 4);
  const std::vector<float> pre = {.6106402F, .3543447F, .8175755F, .5249802F};

  // pre is seen through the collapse: one stream at a time is 1, and the norm is undone by comparing before it.
  ModelConfig config = small_config();
  config.hidden = 2;
  const Bench bench(config);
  const OwnedWeight fn("fn", 24, 8, std::vector<float>(192, 0.0F));
  const OwnedWeight base_weight("base", 1, 24, base);
  const OwnedWeight scale("scale", 1, 3, std::vector<float>(3, 1.0F));
  const OwnedWeight gain("gain", 1, 2, std::vector<float>(2, 1.0F));
  const HcWeights hc{bench.upload(fn), bench.upload(base_weight), bench.upload(scale)};
  const HcMix mix{bench.matrix(1, 4), bench.matrix(1, 16)};
  for (int j = 1; j < 4; ++j) {
    // Channel 0 carries stream 0, channel 1 stream j: their ratio after the norm is pre_j / pre_0.
    std::vector<float> streams(8, 0.0F);
    streams[0] = 1.0F;
    streams[static_cast<size_t>(2 * j + 1)] = 1.0F;
    const DeviceMat<float> x = bench.matrix(1, 2);
    bench.ops->hc_enter(hc, bench.upload(gain), bench.matrix(1, 8, streams), mix, x);
    const std::vector<float> y = bench.read(x);
    EXPECT_NEAR(y[1] / y[0], pre[static_cast<size_t>(j)] / pre[0], kTolerance);
  }
  expect_near(bench.read(mix.post), {1.2212785F, .7086874F, 1.6351490F, 1.0499584F});
}

TEST(SpecVectors, RotaryEmbedding) {
  ModelConfig config = small_config();
  config.head_dim = 128;
  config.rope_dim = 64;
  const auto rotate = [&](bool compressed, int position) {
    const std::vector<float> f = rope_frequencies(config, compressed);
    std::vector<float> x(64);
    for (int i = 0; i < 32; ++i) {
      const float a = static_cast<float>(2 * i + 1) / 64.0F;
      const float b = static_cast<float>(2 * i + 2) / 64.0F;
      const Rotation r = rope_rotation(position, f[static_cast<size_t>(i)]);
      x[static_cast<size_t>(2 * i)] = a * r.cos - b * r.sin;
      x[static_cast<size_t>(2 * i + 1)] = a * r.sin + b * r.cos;
    }
    return std::vector<float>{x[0], x[1], x[2], x[3], x[32], x[33], x[62], x[63]};
  };
  expect_near(rotate(false, 5), {.034399F, -.006119F, -.002782F, -.078075F, .488429F, .556357F, .983708F, 1.000656F},
              1e-6F);
  expect_near(rotate(true, 1000), {-.017053F, .030494F, -.065580F, -.042459F, -.738218F, .055949F, .983807F, 1.000559F},
              1e-6F);
  expect_near(rotate(true, 1000000),
              {.025574F, .023805F, .077998F, .004454F, -.171501F, -.720197F, .291787F, 1.372536F}, 1e-6F);
}

TEST(SpecVectors, YarnFrequencies) {
  ModelConfig config = small_config();
  config.rope_dim = 64;
  const std::vector<float> f = rope_frequencies(config, true);
  const std::vector<std::pair<size_t, float>> expected = {
      {0, 1.0F},           {1, 0.68765602F},   {8, 0.05F},          {15, 3.6355386e-3F}, {16, 2.265625e-3F},
      {20, 2.9697778e-4F}, {24, 1.953125e-5F}, {25, 5.3723127e-6F}, {31, 5.6805290e-7F}};
  for (const auto& [i, value] : expected) {
    EXPECT_NEAR(f[i] / value, 1.0F, 3e-7F) << "pair " << i;
  }
  const std::vector<float> plain = rope_frequencies(config, false);
  EXPECT_NEAR(plain[1], 0.74989421F, 1e-7F);
  EXPECT_NEAR(plain[31] / 1.3335214e-4F, 1.0F, 2e-7F);
}

TEST(SpecVectors, OverlappingCompressor) {
  // Entries of width 1 cannot be rotated: take 4 dims with position-independent pairs (the first two) and read dim 0.
  // Values: first half of the channels t, second half 10 + t; gates 0.1 t and -0.1 t; ape row r = (0.01 r, 0.02 r).
  ModelConfig config = small_config();
  config.compress_ratios = {4};
  const Bench bench(config, 8);
  std::vector<float> kv;
  std::vector<float> gate;
  std::vector<float> ape;
  for (int t = 0; t < 8; ++t) {
    const auto v = static_cast<float>(t);
    for (int i = 0; i < 8; ++i) {
      // Dim 1 of both halves is constant, so that the norm can be undone by the ratio of dims 0 and 1.
      const bool second = i >= 4;
      kv.push_back(i % 4 == 0 ? (second ? 10.0F + v : v) : 1.0F);
      gate.push_back(second ? -0.1F * v : 0.1F * v);
    }
  }
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 8; ++i) {
      ape.push_back((i >= 4 ? 0.02F : 0.01F) * static_cast<float>(r));
    }
  }
  const OwnedWeight ape_weight("ape", 4, 8, ape);
  const OwnedWeight norm("norm", 1, 4, std::vector<float>(4, 1.0F));
  const CompressorWeights w{.kv = {}, .gate = {}, .ape = bench.upload(ape_weight), .norm = bench.upload(norm)};
  bench.ops->compress(0, w, bench.matrix(8, 8, kv), bench.matrix(8, 8, gate));

  const CacheLayout& layout = bench.ops->cache_layout();
  std::vector<std::byte> block(layout.block_bytes);
  bench.ops->read_block(0, block);
  const std::vector<float> expected = {11.400181F, 6.238809F};
  for (size_t c = 0; c < 2; ++c) {
    std::vector<float> row(4);
    std::memcpy(row.data(), block.data() + layout.layers[0].kv_offset + c * layout.kv_row_bytes, 16);
    EXPECT_NEAR(row[0] / row[1], expected[c], 5e-6F) << "entry " << c;
  }
}

TEST(SpecVectors, SoftmaxWithSink) {
  // Scores 1, 2, 0.5 and values 10, 20, 30 for three rows: keys are values, so dims 0 and 1 carry them apart.
  // Query (2, 0, ...) with D = 4: score = 2 * k_0 / 2 = k_0. The rotary dims stay zero.
  const Bench bench(small_config(), 3);
  const OwnedWeight sinks("sinks", 1, 1, std::vector<float>{1.5F});
  std::vector<float> q(12, 0.0F);
  q[8] = 2.0F;
  const std::vector<float> kv = {1, 10, 0, 0, 2, 20, 0, 0, 0.5F, 30, 0, 0};
  const DeviceMat<float> context = bench.matrix(3, 4);
  bench.ops->attend(0, bench.upload(sinks), bench.matrix(3, 4, q), bench.matrix(3, 4, kv), {}, context);
  const std::vector<float> out = bench.read(context);
  EXPECT_NEAR(out[9], 13.821225F, 1e-5F);
  EXPECT_NEAR(out[8], .167405F * 1 + .455054F * 2 + .101536F * 0.5F, kTolerance);
}

TEST(SpecVectors, RouterScoresAndWeights) {
  const Bench bench(small_config());
  const OwnedWeight gate("gate", 8, 1, std::vector<float>{-2, -1, 0, .5F, 1, 1.5F, 2, 3});
  const OwnedWeight bias("bias", 1, 8, std::vector<float>(8, 0.0F));
  const RouterWeights w{bench.upload(gate), bench.upload(bias), {}};
  const TopK chosen{bench.ops->make_i32(1, 3), bench.matrix(1, 3)};
  bench.ops->route(0, w, bench.matrix(1, 1, {1.0F}), chosen);
  std::vector<int32_t> ids(3);
  bench.ops->read_i32(chosen.ids, {ids.data(), 1, 3});
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 6, 7}));
  expect_near(bench.read(chosen.weights), {.433945F, .485184F, .580871F});
}

TEST(SpecVectors, RouterBiasSelectsButDoesNotWeigh) {
  const Bench bench(small_config());
  const OwnedWeight gate("gate", 8, 1, std::vector<float>{-2, -1, 0, .5F, 1, 1.5F, 2, 3});
  const OwnedWeight bias("bias", 1, 8, std::vector<float>{100, 0, 0, 0, 0, 0, 0, 0});
  const RouterWeights w{bench.upload(gate), bench.upload(bias), {}};
  const TopK chosen{bench.ops->make_i32(1, 3), bench.matrix(1, 3)};
  bench.ops->route(0, w, bench.matrix(1, 1, {1.0F}), chosen);
  std::vector<int32_t> ids(3);
  bench.ops->read_i32(chosen.ids, {ids.data(), 1, 3});
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 6, 7}));
  const float sum = .356270F + 1.458399F + 1.746020F;
  expect_near(bench.read(chosen.weights), {1.5F * .356270F / sum, 1.5F * 1.458399F / sum, 1.5F * 1.746020F / sum});
}

TEST(SpecVectors, ClampedSwiglu) {
  const Bench bench(small_config());
  const auto shared_expert = [&](float gate, float up) {
    const std::vector<float> zeros(8, 0.0F);
    const OwnedWeight none("none", 1, 1, zeros);
    const OwnedWeight g("gate", 1, 1, std::vector<float>{gate});
    const OwnedWeight u("up", 1, 1, std::vector<float>{up});
    const OwnedWeight d("down", 1, 1, std::vector<float>{1.0F});
    const Weight zero = bench.upload(none, WeightRole::kExperts);
    const TopK chosen{bench.ops->make_i32(1, 3), bench.matrix(1, 3)};
    const DeviceMat<float> y = bench.matrix(1, 1);
    bench.ops->experts(0, {zero, zero, zero}, {bench.upload(g), bench.upload(u), bench.upload(d)}, chosen,
                       bench.matrix(1, 1, {1.0F}), y);
    return bench.read(y)[0];
  };
  EXPECT_NEAR(shared_expert(20, -20), -99.995460F, 1e-5F);
  EXPECT_NEAR(shared_expert(-20, 20) / -4.1223e-7F, 1.0F, 1e-4F);
  EXPECT_NEAR(shared_expert(1, 2), 1.4621172F, kTolerance);
}

}  // namespace
}  // namespace fathom
