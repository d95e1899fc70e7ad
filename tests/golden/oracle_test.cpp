// Logits and insides of the oracle fixtures, as an independent implementation computed them (float32, transformers).
// With the simulation of activations off, every position must agree, however the prompt is cut into steps.
#include "support/oracle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/model_runner.h"

namespace fathom {
namespace {

using test::Fixture;
using test::ReferenceTensors;

constexpr float kLogitTolerance = 2e-4F;
constexpr float kClearMargin = 1e-3F;  // a greedy choice is comparable when the two best logits are further apart

struct Case {
  Fixture fixture;
  bool official = false;  // weights and config under the official names
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Fixture& f : test::oracle_fixtures()) {
    all.push_back({f, false});
    all.push_back({f, true});
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.fixture.name + (info.param.official ? "_official" : "_hf");
}

class Oracle : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<ModelRunner> open(bool activation_sim, KvType kv_type = KvType::kF32) {
    const Case& c = GetParam();
    const auto dir = c.official ? test::official_spelling(c.fixture.dir) : c.fixture.dir;
    return ModelRunner::open({.model_path = dir.string(),
                              .backend = {.kind = BackendKind::kReference,
                                          .max_rows = 700,
                                          .cache = {.activation_sim = activation_sim, .kv_type = kv_type}},
                              .max_context = 1024});
  }

  static ReferenceTensors reference(const char* file) {
    return ReferenceTensors((GetParam().fixture.dir / file).string());
  }

  static std::vector<float> run(ModelRunner& runner, const std::vector<TokenId>& tokens, int chunk) {
    std::vector<float> logits;
    SequenceCache sequence = runner.make_sequence();
    runner.feed(sequence, tokens, chunk, [&](int /*position*/, HostMat<const float> rows) {
      for (int r = 0; r < rows.rows(); ++r) {
        logits.insert(logits.end(), rows.row(r).begin(), rows.row(r).end());
      }
    });
    return logits;
  }
};

// The largest difference of the rows that the reference has: all positions, or the last ones of a trimmed file.
float worst_difference(const std::vector<float>& logits, const ReferenceTensors::Array<float>& expected) {
  const size_t n = expected.values.size();
  EXPECT_LE(n, logits.size());
  float worst = 0.0F;
  for (size_t i = 0; i < n; ++i) {
    const float difference = std::abs(logits[logits.size() - n + i] - expected.values[i]);
    worst = std::isnan(difference) ? std::numeric_limits<float>::infinity() : std::max(worst, difference);
  }
  return worst;
}

float smallest(const ReferenceTensors::Array<float>& gaps) {
  return *std::min_element(gaps.values.begin(), gaps.values.end());
}

TEST_P(Oracle, LogitsAgreeAtEveryPositionHoweverTheyAreChunked) {
  const auto runner = open(/*activation_sim=*/false);
  const ReferenceTensors ref = reference("ref.safetensors");
  ASSERT_FALSE(ref.lengths("tok").empty());
  for (const int length : ref.lengths("tok")) {
    const std::vector<TokenId> tokens = ref.ints(fmt::format("tok.{}", length)).values;
    const auto expected = ref.floats(fmt::format("logits.{}", length));
    const std::vector<float> whole = run(*runner, tokens, length);
    const float worst = worst_difference(whole, expected);
    fmt::print("{} tokens: worst difference {:.1e} at {} positions; smallest gaps: router {:.1e}, index {:.1e}\n",
               length, worst, expected.rows(), smallest(ref.floats(fmt::format("router_gap.{}", length))),
               smallest(ref.floats(fmt::format("index_gap.{}", length))));
    EXPECT_LE(worst, kLogitTolerance) << length << " tokens";
    for (const int chunk : {1, 3, 7, 64, 128, 129}) {
      if (chunk < length) {
        EXPECT_EQ(run(*runner, tokens, chunk), whole) << length << " tokens in chunks of " << chunk;
      }
    }
  }
}

TEST_P(Oracle, GreedyContinuationsAreReproduced) {
  const auto runner = open(/*activation_sim=*/false);
  const ReferenceTensors ref = reference("ref.safetensors");
  for (const int length : ref.lengths("gen")) {
    std::vector<TokenId> tokens = ref.ints(fmt::format("tok.{}", length)).values;
    const std::vector<int32_t> expected = ref.ints(fmt::format("gen.{}", length)).values;
    const std::vector<float> margins = ref.floats(fmt::format("gen_margin.{}", length)).values;
    SequenceCache sequence = runner->make_sequence();
    std::vector<TokenId> next = tokens;
    for (size_t i = 0; i < expected.size() && margins[i] > kClearMargin; ++i) {
      const StepInput input{.sequence = &sequence, .tokens = next, .n_logits = 1};
      const HostMat<const float> logits = runner->run({&input, 1});
      const auto row = logits.row(0);
      const auto best = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
      ASSERT_EQ(best, expected[i]) << "token " << i << " after a prompt of " << length;
      next = {best};
    }
  }
}

// Positions where the reference itself is steady under tiny perturbations: elsewhere a code may flip for anyone.
struct SteadyComparison {
  int compared = 0;
  int left_out = 0;
  float worst_excess = -std::numeric_limits<float>::infinity();  // difference minus its allowance
};

SteadyComparison compare_steady(const std::vector<float>& logits, const ReferenceTensors::Array<float>& expected,
                                const std::vector<float>& flip_frac, const std::vector<float>& noise) {
  SteadyComparison result;
  const auto vocab = static_cast<size_t>(expected.cols());
  const size_t skipped = logits.size() / vocab - static_cast<size_t>(expected.rows());
  const size_t noise_skipped = noise.size() - static_cast<size_t>(expected.rows());
  for (int r = 0; r < expected.rows(); ++r) {
    const auto row = static_cast<size_t>(r);
    if (!flip_frac.empty() && flip_frac[noise_skipped + row] > 0.0F) {
      ++result.left_out;
      continue;
    }
    ++result.compared;
    for (size_t v = 0; v < vocab; ++v) {
      const float difference = std::abs(logits[(skipped + row) * vocab + v] - expected.row(r)[v]);
      result.worst_excess = std::max(result.worst_excess, difference - (10 * noise[noise_skipped + row] + 1e-3F));
    }
  }
  return result;
}

TEST_P(Oracle, SimulatedActivationsAgreeAtSteadyPositions) {
  const auto runner = open(/*activation_sim=*/true);
  const ReferenceTensors sim = reference("sim.safetensors");
  for (const int length : sim.lengths("tok")) {
    const auto flips = sim.floats(fmt::format("flip_frac.{}", length)).values;
    const auto expected = sim.floats(fmt::format("logits_sim.{}", length));
    const std::vector<float> logits = run(*runner, sim.ints(fmt::format("tok.{}", length)).values, length);
    const SteadyComparison c =
        compare_steady(logits, expected, flips, sim.floats(fmt::format("noise_sim.{}", length)).values);
    fmt::print("{} tokens: {} steady positions compared, {} left out\n", length, c.compared, c.left_out);
    EXPECT_EQ(c.compared, std::count(flips.end() - expected.rows(), flips.end(), 0.0F));
    EXPECT_LE(c.worst_excess, 0.0F) << length << " tokens";
  }
  for (const int length : sim.lengths("tok_alt")) {
    const auto expected = sim.floats(fmt::format("logits_alt.{}", length));
    const std::vector<float> logits = run(*runner, sim.ints(fmt::format("tok_alt.{}", length)).values, length);
    const SteadyComparison c =
        compare_steady(logits, expected, {}, sim.floats(fmt::format("noise_alt.{}", length)).values);
    fmt::print("{} tokens (alternative prompt): {} positions compared\n", length, c.compared);
    EXPECT_LE(c.worst_excess, 0.0F) << length << " tokens, alternative prompt";
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Oracle, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace fathom
