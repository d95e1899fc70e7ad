#include "quant/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "quant/recipe.h"
#include "quant/synthetic_source.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

TensorSpec matrix(DType dtype, int out = 64, int in = 1024) {
  return {.name = "blk.0.attn_q_a.weight",
          .kind = TensorSpec::Kind::kMatrix,
          .count = 1,
          .out_dim = out,
          .in_dim = in,
          .dtype = dtype};
}

std::vector<std::byte> fill(const TensorSpec& spec, int threads = 1, uint64_t seed = 1) {
  RandomWeights weights(seed, 8);
  ThreadPool pool({.threads = threads});
  std::vector<std::byte> bytes(spec.n_bytes());
  weights.fill(spec, 0, bytes, pool);
  return bytes;
}

std::vector<float> values_of(const TensorSpec& spec) {
  RandomWeights weights(1, 8);
  ThreadPool pool({.threads = 1});
  const auto source = make_synthetic_source({spec}, SyntheticMemory::kOwn, weights, pool);
  std::vector<float> values;
  for (int slice = 0; slice < spec.count; ++slice) {
    for (int row = 0; row < spec.out_dim; ++row) {
      values.resize(values.size() + static_cast<size_t>(spec.in_dim));
      dequantize_row(source->tensors()[0], slice, row, values.data() + values.size() - spec.in_dim);
    }
  }
  return values;
}

class RandomWeightsOfType : public testing::TestWithParam<DType> {};

TEST_P(RandomWeightsOfType, AreFiniteAndOfTheExpectedSize) {
  const TensorSpec spec = matrix(GetParam());
  double sum = 0.0;
  double squares = 0.0;
  const std::vector<float> values = values_of(spec);
  for (const float v : values) {
    ASSERT_TRUE(std::isfinite(v));
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const auto n = static_cast<double>(values.size());
  const double expected = 1.0 / 32.0;
  // 1-bit types keep the sign and little else.
  const bool coarse = GetParam() == DType::kIQ1_S || GetParam() == DType::kIQ1_M;
  EXPECT_NEAR(std::sqrt(squares / n), expected, (coarse ? 0.35 : 0.12) * expected);
  EXPECT_NEAR(sum / n, 0.0, 0.03 * expected);
}

TEST_P(RandomWeightsOfType, DependOnSeedAndNameOnly) {
  const TensorSpec spec = matrix(GetParam(), 40, 768);
  const std::vector<std::byte> bytes = fill(spec);
  EXPECT_EQ(fill(spec, 3), bytes);
  EXPECT_NE(fill(spec, 1, 2), bytes);
  TensorSpec other = spec;
  other.name = "blk.1.attn_q_a.weight";
  EXPECT_NE(fill(other), bytes);
}

TEST_P(RandomWeightsOfType, PartsAreThoseOfTheWhole) {
  const TensorSpec spec = matrix(GetParam(), 40, 768);
  const std::vector<std::byte> whole = fill(spec);
  RandomWeights weights(1, 8);
  ThreadPool pool({.threads = 2});
  std::vector<std::byte> joined;
  constexpr int64_t kPart = 2 * RandomWeights::kPieceElements;
  for (int64_t first = 0; joined.size() < whole.size(); first += kPart) {
    std::vector<std::byte> part(std::min(dtype_row_bytes(spec.dtype, kPart), whole.size() - joined.size()));
    weights.fill(spec, first, part, pool);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, whole);
}

INSTANTIATE_TEST_SUITE_P(All, RandomWeightsOfType,
                         testing::ValuesIn(convertible_types().begin(), convertible_types().end()),
                         [](const auto& param) { return std::string(dtype_info(param.param).name); });

TEST(RandomWeights, VectorsAreNeutral) {
  const auto values = [](const char* name) { return values_of({.name = name, .in_dim = 7}); };
  const std::vector<float> ones(7, 1.0F);
  const std::vector<float> zeros(7, 0.0F);
  EXPECT_EQ(values("blk.0.attn_norm.weight"), ones);
  EXPECT_EQ(values("output_norm.weight"), ones);
  EXPECT_EQ(values("blk.0.hc_attn_scale.weight"), ones);
  EXPECT_EQ(values("blk.0.hc_attn_base.weight"), zeros);
  EXPECT_EQ(values("blk.0.attn_sinks.weight"), zeros);
  EXPECT_EQ(values("blk.3.exp_probs_b.bias"), zeros);
}

TEST(RandomWeights, IdTablesNameDistinctExperts) {
  constexpr int kExperts = 13;
  RandomWeights weights(1, kExperts);
  ThreadPool pool({.threads = 1});
  const TensorSpec spec{.name = "blk.0.ffn_gate_tid2eid.weight",
                        .kind = TensorSpec::Kind::kIdTable,
                        .count = 1,
                        .out_dim = 1000,
                        .in_dim = 6,
                        .dtype = DType::kI32};
  std::vector<int32_t> ids(6000);
  weights.fill(spec, 0, std::as_writable_bytes(std::span(ids)), pool);
  std::vector<int> uses(kExperts);
  for (size_t row = 0; row < 1000; ++row) {
    const std::set<int32_t> chosen(ids.begin() + static_cast<ptrdiff_t>(6 * row),
                                   ids.begin() + static_cast<ptrdiff_t>(6 * row + 6));
    ASSERT_EQ(chosen.size(), 6U) << row;
    for (const int32_t id : chosen) {
      ASSERT_TRUE(id >= 0 && id < kExperts) << id;
      ++uses[static_cast<size_t>(id)];
    }
  }
  for (const int n : uses) {
    EXPECT_NEAR(n, 6000 / kExperts, 120);
  }
}

TEST(SyntheticSource, SharesTheBytesOfMatricesOnRequest) {
  const TensorSpec experts{.name = "blk.0.ffn_gate_exps.weight",
                           .kind = TensorSpec::Kind::kExperts,
                           .count = 3,
                           .out_dim = 8,
                           .in_dim = 256,
                           .dtype = DType::kQ4_K};
  TensorSpec next = experts;
  next.name = "blk.1.ffn_gate_exps.weight";
  RandomWeights weights(1, 3);
  ThreadPool pool({.threads = 1});
  const auto own = make_synthetic_source({experts, next}, SyntheticMemory::kOwn, weights, pool);
  const auto shared = make_synthetic_source({experts, next}, SyntheticMemory::kShared, weights, pool);
  std::set<const std::byte*> own_bytes;
  std::set<const std::byte*> shared_bytes;
  for (size_t tensor = 0; tensor < 2; ++tensor) {
    for (size_t slice = 0; slice < 3; ++slice) {
      own_bytes.insert(own->tensors()[tensor].slices[slice].codes);
      shared_bytes.insert(shared->tensors()[tensor].slices[slice].codes);
    }
  }
  EXPECT_EQ(own_bytes.size(), 6U);
  EXPECT_EQ(shared_bytes.size(), 1U);
}

}  // namespace
}  // namespace fathom
