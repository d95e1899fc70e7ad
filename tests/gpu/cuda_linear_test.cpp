// Products, norms, embeddings, hyper-connections, router and experts of the CUDA backend against the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "gpu/pair.h"

namespace fathom {
namespace {

using test::BothMats;
using test::BothWeights;
using test::expect_below;
using test::flash_like;
using test::Pair;
using test::RandomWeight;

// Relative error of a product: int8 blocks of activations, bf16 activations, or float32 all through.
constexpr double kInt8 = 8e-3;
constexpr double kBf16 = 4e-3;
constexpr double kF32 = 5e-6;

struct Step {
  std::vector<TokenId> tokens;
  std::vector<int32_t> blocks = {0};
  std::vector<int32_t> logit_rows;
  SequenceSlice slice;

  explicit Step(int rows) : tokens(static_cast<size_t>(rows)) {
    for (int i = 0; i < rows; ++i) {
      tokens[static_cast<size_t>(i)] = (i * 7 + 3) % 256;
    }
    slice = {.slot = 0, .blocks = blocks, .start = 0, .first_row = 0, .n_rows = rows};
  }
  [[nodiscard]] StepBatch batch() const { return {tokens, {&slice, 1}, logit_rows}; }
};

bool is_float_type(DType t) { return dtype_info(t).is_float || t == DType::kF8_E4M3; }

double product_limit(DType t, int rows, int cols) {
  const bool float_path = is_float_type(t) && (rows <= 8 || t == DType::kF32 || cols % 64 != 0);
  if (float_path) {
    return kF32;
  }
  if (rows <= 8 && !is_float_type(t) && dtype_info(t).block_size >= 32) {
    return kInt8;
  }
  return kInt8;
}

TEST(CudaLinear, MatmulOfEveryTypeAgrees) {
  constexpr std::array kTypes = {DType::kF32,  DType::kF16,    DType::kBF16,   DType::kF8_E4M3, DType::kQ8_0,
                                 DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,   DType::kIQ2_XXS, DType::kMXFP4,
                                 DType::kQ6_K, DType::kIQ4_XS, DType::kF4_E2M1};
  struct Shape {
    int out;
    int in;
  };
  for (const DType type : kTypes) {
    for (const Shape shape : {Shape{1000, 512}, Shape{264, 4096}}) {
      Pair pair(flash_like(shape.in));
      const RandomWeight data("w", type, shape.out, shape.in, 1, 7);
      const BothWeights w = pair.upload(data.weight(), WeightRole::kMatrix);
      for (const int rows : {1, 3, 8, 40, 130}) {
        const Step step(rows);
        pair.begin(step.batch());
        const BothMats x = pair.random(rows, shape.in, static_cast<uint64_t>(rows));
        const BothMats y = pair.make(rows, shape.out);
        const Product a{&w.reference, y.reference};
        const Product b{&w.cuda, y.cuda};
        pair.reference->matmul({&a, 1}, x.reference);
        pair.cuda->matmul({&b, 1}, x.cuda);
        expect_below(pair.relative_error(y), product_limit(type, rows, shape.in),
                     fmt::format("matmul {} {} x {} rows {}", dtype_info(type).name, shape.out, shape.in, rows));
      }
    }
  }
}

TEST(CudaLinear, FloatMatmulOfOddWidths) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    Pair pair(flash_like(512));
    const RandomWeight data("w", type, 33, 77, 1, 9);
    const BothWeights w = pair.upload(data.weight(), WeightRole::kMatrix);
    for (const int rows : {1, 5, 33}) {
      const Step step(rows);
      pair.begin(step.batch());
      const BothMats x = pair.random(rows, 77, 5);
      const BothMats y = pair.make(rows, 33);
      const Product a{&w.reference, y.reference};
      const Product b{&w.cuda, y.cuda};
      pair.reference->matmul({&a, 1}, x.reference);
      pair.cuda->matmul({&b, 1}, x.cuda);
      expect_below(pair.relative_error(y), kF32, fmt::format("matmul {} 33 x 77 rows {}", dtype_info(type).name, rows));
    }
  }
}

TEST(CudaLinear, SeveralProductsAndGroups) {
  ModelConfig config = flash_like(512, 8);
  config.o_lora_rank = 128;
  config.o_groups = 4;
  for (const DType type : {DType::kQ8_0, DType::kBF16, DType::kF8_E4M3}) {
    Pair pair(config);
    const RandomWeight d1("w1", type, 70, 512, 1, 1);
    const RandomWeight d2("w2", DType::kF32, 30, 512, 1, 2);
    const RandomWeight d3("w3", type, 128, 512, 1, 3);
    const RandomWeight dg("wg", type, 512, 1024, 1, 4);
    const BothWeights w1 = pair.upload(d1.weight(), WeightRole::kMatrix);
    const BothWeights w2 = pair.upload(d2.weight(), WeightRole::kMatrix);
    const BothWeights w3 = pair.upload(d3.weight(), WeightRole::kMatrix);
    const BothWeights wg = pair.upload(dg.weight(), WeightRole::kMatrix);
    for (const int rows : {1, 6, 50}) {
      const Step step(rows);
      pair.begin(step.batch());
      const BothMats x = pair.random(rows, 512, 11);
      const BothMats y1 = pair.make(rows, 70);
      const BothMats y2 = pair.make(rows, 30);
      const BothMats y3 = pair.make(rows, 128);
      const std::array<Product, 3> a{
          {{&w1.reference, y1.reference}, {&w2.reference, y2.reference}, {&w3.reference, y3.reference}}};
      const std::array<Product, 3> b{{{&w1.cuda, y1.cuda}, {&w2.cuda, y2.cuda}, {&w3.cuda, y3.cuda}}};
      pair.reference->matmul(a, x.reference);
      pair.cuda->matmul(b, x.cuda);
      expect_below(pair.relative_error(y1), kInt8,
                   fmt::format("first of three {} rows {}", dtype_info(type).name, rows));
      expect_below(pair.relative_error(y2), kF32, fmt::format("second of three F32 rows {}", rows));
      expect_below(pair.relative_error(y3), kInt8,
                   fmt::format("third of three {} rows {}", dtype_info(type).name, rows));
      const BothMats context = pair.random(rows, 4096, 12);
      const BothMats low = pair.make(rows, 512);
      pair.reference->matmul_grouped(wg.reference, context.reference, low.reference);
      pair.cuda->matmul_grouped(wg.cuda, context.cuda, low.cuda);
      expect_below(pair.relative_error(low), kInt8, fmt::format("grouped {} rows {}", dtype_info(type).name, rows));
    }
  }
}

TEST(CudaLinear, NormAndEmbedding) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8_E4M3, DType::kQ8_0, DType::kQ2_K,
                           DType::kQ3_K, DType::kQ4_K, DType::kIQ2_XXS, DType::kMXFP4, DType::kF4_E2M1}) {
    Pair pair(flash_like(512));
    const RandomWeight data("table", type, 256, 512, 1, 21);
    const BothWeights table = pair.upload(data.weight(), WeightRole::kEmbedding);
    const Step step(9);
    pair.begin(step.batch());
    const BothMats streams = pair.make(9, 4 * 512);
    pair.reference->embed(table.reference, streams.reference);
    pair.cuda->embed(table.cuda, streams.cuda);
    expect_below(pair.relative_error(streams), 1e-6, fmt::format("embed {}", dtype_info(type).name));
  }
  Pair pair(flash_like(512));
  for (const int cols : {77, 1024, 1536}) {
    const RandomWeight data("gain", DType::kF32, 1, cols, 1, 22);
    const BothWeights gain = pair.upload(data.weight(), WeightRole::kVector);
    const Step step(5);
    pair.begin(step.batch());
    const BothMats x = pair.random(5, cols, 23);
    const BothMats y = pair.make(5, cols);
    pair.reference->rms_norm(gain.reference, x.reference, y.reference);
    pair.cuda->rms_norm(gain.cuda, x.cuda, y.cuda);
    expect_below(pair.relative_error(y), 1e-6, fmt::format("rms_norm {}", cols));
  }
}

TEST(CudaLinear, HyperConnections) {
  struct Shape {
    int hidden;
    int hc;
    DType fn;
  };
  for (const Shape shape : {Shape{4096, 4, DType::kF32}, Shape{77, 4, DType::kF32}, Shape{96, 2, DType::kBF16},
                            Shape{512, 3, DType::kF16}, Shape{7168, 4, DType::kF16}}) {
    ModelConfig config = flash_like(shape.hidden);
    config.hc = shape.hc;
    const int mix_rows = config.hc_mix();
    Pair pair(config);
    const RandomWeight fn("fn", shape.fn, mix_rows, shape.hc * shape.hidden, 1, 31);
    const RandomWeight base("base", DType::kF32, 1, mix_rows, 1, 32);
    const RandomWeight scale("scale", DType::kF32, 1, 3, 1, 33);
    const RandomWeight norm("norm", DType::kF32, 1, shape.hidden, 1, 34);
    const RandomWeight head_fn("head_fn", shape.fn, shape.hc, shape.hc * shape.hidden, 1, 35);
    const RandomWeight head_base("head_base", DType::kF32, 1, shape.hc, 1, 36);
    const RandomWeight head_scale("head_scale", DType::kF32, 1, 1, 1, 37);
    const BothWeights w[] = {
        pair.upload(fn.weight(), WeightRole::kMatrix),        pair.upload(base.weight(), WeightRole::kVector),
        pair.upload(scale.weight(), WeightRole::kVector),     pair.upload(norm.weight(), WeightRole::kVector),
        pair.upload(head_fn.weight(), WeightRole::kMatrix),   pair.upload(head_base.weight(), WeightRole::kVector),
        pair.upload(head_scale.weight(), WeightRole::kVector)};
    const HcWeights hc_a{w[0].reference, w[1].reference, w[2].reference};
    const HcWeights hc_b{w[0].cuda, w[1].cuda, w[2].cuda};
    const HcWeights head_a{w[4].reference, w[5].reference, w[6].reference};
    const HcWeights head_b{w[4].cuda, w[5].cuda, w[6].cuda};
    for (const int rows : {1, 20}) {
      Step step(rows);
      step.logit_rows = {rows - 1};
      pair.begin(step.batch());
      const BothMats streams = pair.random(rows, shape.hc * shape.hidden, 38);
      const BothMats y = pair.random(rows, shape.hidden, 39);
      const BothMats post = pair.make(rows, shape.hc);
      const BothMats comb = pair.make(rows, shape.hc * shape.hc);
      const BothMats x = pair.make(rows, shape.hidden);
      const HcMix mix_a{post.reference, comb.reference};
      const HcMix mix_b{post.cuda, comb.cuda};
      const std::string what =
          fmt::format("hidden {} hc {} {} rows {}", shape.hidden, shape.hc, dtype_info(shape.fn).name, rows);
      // Twice, so that the second entry follows an exit that was put off.
      for (int pass = 0; pass < 2; ++pass) {
        pair.reference->hc_enter(hc_a, w[3].reference, streams.reference, mix_a, x.reference);
        pair.cuda->hc_enter(hc_b, w[3].cuda, streams.cuda, mix_b, x.cuda);
        expect_below(pair.relative_error(x), 1e-5, "hc_enter x " + what);
        expect_below(pair.relative_error(post), 1e-5, "hc_enter post " + what);
        expect_below(pair.relative_error(comb), 1e-5, "hc_enter comb " + what);
        pair.reference->hc_exit(y.reference, mix_a, streams.reference);
        pair.cuda->hc_exit(y.cuda, mix_b, streams.cuda);
      }
      const BothMats last = pair.make(1, shape.hidden);
      pair.reference->hc_collapse(head_a, w[3].reference, streams.reference, last.reference);
      pair.cuda->hc_collapse(head_b, w[3].cuda, streams.cuda, last.cuda);
      expect_below(pair.relative_error(streams), 1e-5, "hc_exit " + what);
      expect_below(pair.relative_error(last), 1e-5, "hc_collapse " + what);
    }
  }
}

struct ExpertTypes {
  DType gate;
  DType down;
  DType shared;
};

void check_experts(const ExpertTypes& types, const ModelConfig& config, double limit) {
  Pair pair(config, 320);
  const int d = config.hidden;
  const int f = config.expert_ffn;
  const RandomWeight gate("gate", types.gate, f, d, config.n_experts, 41);
  const RandomWeight up("up", types.gate, f, d, config.n_experts, 42);
  const RandomWeight down("down", types.down, d, f, config.n_experts, 43);
  const RandomWeight sgate("sgate", types.shared, f, d, 1, 44);
  const RandomWeight sup("sup", types.shared, f, d, 1, 45);
  const RandomWeight sdown("sdown", types.shared, d, f, 1, 46);
  const RandomWeight router("router", DType::kF32, config.n_experts, d, 1, 47);
  const RandomWeight bias("bias", DType::kF32, 1, config.n_experts, 1, 48);
  const BothWeights w[] = {
      pair.upload(gate.weight(), WeightRole::kExperts),  pair.upload(up.weight(), WeightRole::kExperts),
      pair.upload(down.weight(), WeightRole::kExperts),  pair.upload(sgate.weight(), WeightRole::kMatrix),
      pair.upload(sup.weight(), WeightRole::kMatrix),    pair.upload(sdown.weight(), WeightRole::kMatrix),
      pair.upload(router.weight(), WeightRole::kMatrix), pair.upload(bias.weight(), WeightRole::kVector)};
  const RouterWeights router_a{w[6].reference, w[7].reference, std::nullopt};
  const RouterWeights router_b{w[6].cuda, w[7].cuda, std::nullopt};
  for (const int rows : {1, 5, 64, 300}) {
    const Step step(rows);
    pair.begin(step.batch());
    const BothMats x = pair.random(rows, d, 49, 2.0F);
    const BothMats y = pair.make(rows, d);
    const BothMats weights = pair.make(rows, config.n_experts_used);
    const TopK a{pair.reference->make_i32(rows, config.n_experts_used), weights.reference};
    const TopK b{pair.cuda->make_i32(rows, config.n_experts_used), weights.cuda};
    pair.reference->route(0, router_a, x.reference, a);
    pair.cuda->route(0, router_b, x.cuda, b);
    const std::string what = fmt::format("{} / {} / {} rows {}", dtype_info(types.gate).name,
                                         dtype_info(types.down).name, dtype_info(types.shared).name, rows);
    pair.reference->experts(0, {w[0].reference, w[1].reference, w[2].reference},
                            {w[3].reference, w[4].reference, w[5].reference}, a, x.reference, y.reference);
    pair.cuda->experts(0, {w[0].cuda, w[1].cuda, w[2].cuda}, {w[3].cuda, w[4].cuda, w[5].cuda}, b, x.cuda, y.cuda);
    EXPECT_EQ(pair.read(a.ids, false), pair.read(b.ids, true)) << what;
    expect_below(pair.relative_error(weights), 1e-5, "route " + what);
    expect_below(pair.relative_error(y), limit, "experts " + what);
  }
}

TEST(CudaLinear, ExpertsOfEveryType) {
  ModelConfig config = flash_like(512);
  config.expert_ffn = 256;
  check_experts({DType::kIQ2_XXS, DType::kQ2_K, DType::kQ8_0}, config, 1.5e-2);
  check_experts({DType::kQ4_K, DType::kQ4_K, DType::kQ8_0}, config, 1.5e-2);
  check_experts({DType::kQ3_K, DType::kQ3_K, DType::kQ8_0}, config, 1.5e-2);
  check_experts({DType::kMXFP4, DType::kMXFP4, DType::kF8_E4M3}, config, 1.5e-2);
  check_experts({DType::kQ8_0, DType::kQ8_0, DType::kQ8_0}, config, 1.5e-2);
  check_experts({DType::kBF16, DType::kBF16, DType::kBF16}, config, 1e-2);
  check_experts({DType::kF32, DType::kF32, DType::kF32}, config, 1e-5);
  config.expert_ffn = 40;
  config.hidden = 72;
  check_experts({DType::kBF16, DType::kF32, DType::kF16}, config, 1e-5);
}

TEST(CudaLinear, HashRouting) {
  const ModelConfig config = flash_like(512);
  Pair pair(config);
  std::vector<int32_t> table(256 * 6);
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<int32_t>((i / 6 * 5 + i % 6 * 3) % 16);
  }
  const WeightSlice slice{reinterpret_cast<const std::byte*>(table.data()), nullptr};
  const Weight ids{.name = "tid2eid", .dtype = DType::kI32, .out_dim = 256, .in_dim = 6, .slices = {&slice, 1}};
  const RandomWeight router("router", DType::kBF16, 16, 512, 1, 51);
  const BothWeights t = pair.upload(ids, WeightRole::kIdTable);
  const BothWeights g = pair.upload(router.weight(), WeightRole::kMatrix);
  const Step step(7);
  pair.begin(step.batch());
  const BothMats x = pair.random(7, 512, 52, 30.0F);
  const BothMats weights = pair.make(7, 6);
  const TopK a{pair.reference->make_i32(7, 6), weights.reference};
  const TopK b{pair.cuda->make_i32(7, 6), weights.cuda};
  pair.reference->route(0, {g.reference, std::nullopt, t.reference}, x.reference, a);
  pair.cuda->route(0, {g.cuda, std::nullopt, t.cuda}, x.cuda, b);
  EXPECT_EQ(pair.read(a.ids, false), pair.read(b.ids, true));
  expect_below(pair.relative_error(weights), 1e-5, "hash route weights");
}

}  // namespace
}  // namespace fathom
