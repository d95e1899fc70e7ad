// Logits and insides of the oracle fixtures, as an independent implementation computed them (float32, transformers).
// With the simulation of activations off, every position must agree, however the prompt is cut into steps.
#include "support/oracle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "model/config_reader.h"
#include "weights/dequantize.h"

namespace fathom {
namespace {

using test::Fixture;
using test::ReferenceTensors;

// By backend: double accumulators never flip a choice of an expert or an index entry; float32 ones may where two
// candidates are closer than kNarrowGap, and then the logits from there on are another model's.
constexpr float kReferenceTolerance = 2e-4F;
constexpr float kFloat32Tolerance = 2e-3F;
constexpr float kNarrowGap = 1e-4F;
constexpr float kClearMargin = 1e-3F;  // a greedy choice is comparable when the two best logits are further apart

struct Case {
  Fixture fixture;
  bool official = false;          // weights and config under the official names
  std::string logits = "logits";  // what the reference calls them
  std::vector<int> chunks = {1, 3, 7, 64, 128, 129};
  BackendKind backend = BackendKind::kReference;

  [[nodiscard]] bool exact() const { return backend == BackendKind::kReference; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Fixture& f : test::oracle_fixtures()) {
    all.push_back({.fixture = f});
    // The other spelling gives the same weights: fewer ways to cut the prompts will do.
    all.push_back({.fixture = f, .official = true, .chunks = {1, 129}});
    all.push_back({.fixture = f, .backend = BackendKind::kCpu});
  }
  // The trained model that is bundled as a GGUF, from its original weights.
  if (const auto dir = test::shared_dir("model"); !dir.empty()) {
    all.push_back({.fixture = {"bundled", dir}, .logits = "logits_last", .chunks = {1, 129}});
    all.push_back(all.back());
    all.back().backend = BackendKind::kCpu;
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}{}", info.param.fixture.name, info.param.official ? "official" : "hf",
                     info.param.exact() ? "" : fmt::format("_{}", backend_name(info.param.backend)));
}

// A model whose embedding is off by a few units in the last place: what the float32 of the reference itself is off by
// after a layer or two. Quantisers turn such a difference into another code where a value lies on the edge between two.
class Disturbed final : public WeightSource {
 public:
  Disturbed(std::unique_ptr<WeightSource> source, unsigned seed) : source_(std::move(source)) {
    for (const Weight& w : source_->tensors()) {
      std::vector<WeightSlice> slices(w.slices.begin(), w.slices.end());
      Weight listed = w;
      if (w.name == "token_embd.weight") {
        disturb(w, seed);
        slices = {{reinterpret_cast<const std::byte*>(values_.data()), nullptr}};
        listed.dtype = DType::kF32;
      }
      EXPECT_TRUE(add_tensor(std::string(w.name), listed, std::move(slices)));
    }
  }

  [[nodiscard]] const std::string& path() const noexcept override { return source_->path(); }
  [[nodiscard]] std::string_view config_json() const noexcept override { return source_->config_json(); }

 private:
  static constexpr float kDisturbance = 2e-6F;

  void disturb(const Weight& embedding, unsigned seed) {
    std::minstd_rand random(seed);
    std::uniform_real_distribution<float> relative(-kDisturbance, kDisturbance);
    const auto columns = static_cast<size_t>(embedding.in_dim);
    values_.resize(static_cast<size_t>(embedding.out_dim) * columns);
    for (int row = 0; row < embedding.out_dim; ++row) {
      dequantize_row(embedding, 0, row, values_.data() + static_cast<size_t>(row) * columns);
    }
    for (float& v : values_) {
      v *= 1.0F + relative(random);
    }
  }

  std::unique_ptr<WeightSource> source_;
  std::vector<float> values_;
};

class Oracle : public testing::TestWithParam<Case> {
 protected:
  // With a seed the embedding is disturbed (see Disturbed).
  static std::unique_ptr<ModelRunner> open(bool activation_sim, unsigned seed = 0) {
    const Case& c = GetParam();
    auto source = WeightSource::open((c.official ? test::official_spelling(c.fixture.dir) : c.fixture.dir).string());
    if (seed != 0) {
      source = std::make_unique<Disturbed>(std::move(source), seed);
    }
    RunnerConfig config;
    config.backend.kind = c.backend;
    config.backend.threads = 1;  // the models are so small that sharing costs more
    config.backend.max_rows = 1000;
    config.backend.cache.activation_sim = activation_sim;
    config.max_context = 1024;
    const ModelConfig model = read_config(*source);
    auto ops = make_ops(model, config.backend);
    return std::make_unique<ModelRunner>(std::move(source), model, std::move(ops), config);
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

// Positions up to the first where a choice was closer than kNarrowGap.
int positions_before_narrow_gap(const ReferenceTensors& ref, int length) {
  int first = length;
  for (const char* kind : {"router_gap", "index_gap"}) {
    const std::string name = fmt::format("{}.{}", kind, length);
    if (ref.has(name)) {
      const auto gaps = ref.floats(name);  // [layers, length]
      for (int layer = 0; layer < gaps.rows(); ++layer) {
        const float* row = gaps.row(layer);
        first = std::min(
            first, static_cast<int>(std::find_if(row, row + first, [](float g) { return g < kNarrowGap; }) - row));
      }
    }
  }
  return first;
}

struct Comparison {
  float worst = 0.0F;  // difference of a logit
  int compared = 0;    // positions
  int left_out = 0;
};

// The rows that the reference has (all positions, or the last ones of a trimmed file) before position `end`.
Comparison compare(const std::vector<float>& logits, const ReferenceTensors::Array<float>& expected, int length,
                   int end) {
  Comparison c;
  const auto vocab = static_cast<size_t>(expected.cols());
  for (int r = 0; r < expected.rows(); ++r) {
    const int position = length - expected.rows() + r;
    if (position >= end) {
      ++c.left_out;
      continue;
    }
    ++c.compared;
    for (size_t v = 0; v < vocab; ++v) {
      const float difference = std::abs(logits[static_cast<size_t>(position) * vocab + v] - expected.row(r)[v]);
      c.worst = std::isnan(difference) ? std::numeric_limits<float>::infinity() : std::max(c.worst, difference);
    }
  }
  return c;
}

// How close the closest choice of an expert or an index entry was.
std::string smallest_gap(const ReferenceTensors& ref, const char* kind, int length) {
  const std::string name = fmt::format("{}.{}", kind, length);
  if (!ref.has(name)) {
    return "unknown";
  }
  const std::vector<float> gaps = ref.floats(name).values;
  return fmt::format("{:.1e}", *std::min_element(gaps.begin(), gaps.end()));
}

TEST_P(Oracle, LogitsAgreeAtEveryPositionHoweverTheyAreChunked) {
  const auto runner = open(/*activation_sim=*/false);
  const ReferenceTensors ref = reference("ref.safetensors");
  ASSERT_FALSE(ref.lengths("tok").empty());
  for (const int length : ref.lengths("tok")) {
    const std::vector<TokenId> tokens = ref.ints(fmt::format("tok.{}", length)).values;
    const auto expected = ref.floats(fmt::format("{}.{}", GetParam().logits, length));
    const std::vector<float> whole = run(*runner, tokens, length);
    const int end = GetParam().exact() ? length : positions_before_narrow_gap(ref, length);
    const Comparison c = compare(whole, expected, length, end);
    fmt::print("{} tokens: worst difference {:.1e} at {} positions, {} left out; smallest gaps: router {}, index {}\n",
               length, c.worst, c.compared, c.left_out, smallest_gap(ref, "router_gap", length),
               smallest_gap(ref, "index_gap", length));
    EXPECT_LE(c.worst, GetParam().exact() ? kReferenceTolerance : kFloat32Tolerance) << length << " tokens";
    EXPECT_GT(c.compared + c.left_out, 0);
    for (const int chunk : GetParam().chunks) {
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

// Per position of `expected`, the last ones of `logits`: does every logit lie within ten times what the reference
// itself moved by under tiny disturbances?
std::vector<bool> positions_that_agree(const std::vector<float>& logits, const ReferenceTensors::Array<float>& expected,
                                       const std::vector<float>& noise) {
  const auto vocab = static_cast<size_t>(expected.cols());
  const auto rows = static_cast<size_t>(expected.rows());
  const float* got = logits.data() + logits.size() - rows * vocab;
  std::vector<bool> agree(rows, true);
  for (size_t r = 0; r < rows; ++r) {
    const float allowance = 10 * noise[noise.size() - rows + r] + 1e-3F;
    for (size_t v = 0; v < vocab; ++v) {
      agree[r] = agree[r] && std::abs(got[r * vocab + v] - expected.row(static_cast<int>(r))[v]) <= allowance;
    }
  }
  return agree;
}

// Quantisers are chaotic: where flip_frac is not 0, a disturbance in the last place changed the reference itself.
TEST_P(Oracle, SimulatedActivationsAgreeAtSteadyPositions) {
  const auto runner = open(/*activation_sim=*/true);
  const ReferenceTensors sim = reference("sim.safetensors");
  for (const int length : sim.lengths("tok")) {
    const auto expected = sim.floats(fmt::format("logits_sim.{}", length));
    auto flips = sim.floats(fmt::format("flip_frac.{}", length)).values;
    flips.erase(flips.begin(), flips.end() - expected.rows());
    const std::vector<bool> agree =
        positions_that_agree(run(*runner, sim.ints(fmt::format("tok.{}", length)).values, length), expected,
                             sim.floats(fmt::format("noise_sim.{}", length)).values);
    int compared = 0;
    for (size_t r = 0; r < flips.size(); ++r) {
      if (flips[r] == 0.0F) {
        EXPECT_TRUE(agree[r]) << length << " tokens, row " << r;
        ++compared;
      }
    }
    fmt::print("{} tokens: {} steady positions compared, {} left out\n", length, compared,
               static_cast<int>(flips.size()) - compared);
    EXPECT_EQ(compared, std::count(flips.begin(), flips.end(), 0.0F));
  }
}

// The alternative prompts were picked for steadiness but carry no flip_frac. A position where a value lies on the edge
// between two codes must still come out as in the reference under some tiny disturbance.
TEST_P(Oracle, SimulatedActivationsAgreeOnTheAlternativePrompts) {
  if (!GetParam().exact()) {
    GTEST_SKIP() << "disturbances this small say nothing about a backend that sums in float32";
  }
  constexpr unsigned kDisturbedRuns = 24;
  const auto runner = open(/*activation_sim=*/true);
  const ReferenceTensors sim = reference("sim.safetensors");
  for (const int length : sim.lengths("tok_alt")) {
    const auto expected = sim.floats(fmt::format("logits_alt.{}", length));
    const auto noise = sim.floats(fmt::format("noise_alt.{}", length)).values;
    const std::vector<TokenId> tokens = sim.ints(fmt::format("tok_alt.{}", length)).values;
    std::vector<bool> agree = positions_that_agree(run(*runner, tokens, length), expected, noise);
    const auto on_an_edge = std::count(agree.begin(), agree.end(), false);
    for (unsigned seed = 1; seed <= kDisturbedRuns && std::count(agree.begin(), agree.end(), false) > 0; ++seed) {
      const std::vector<bool> disturbed =
          positions_that_agree(run(*open(/*activation_sim=*/true, seed), tokens, length), expected, noise);
      for (size_t r = 0; r < agree.size(); ++r) {
        agree[r] = agree[r] || disturbed[r];
      }
    }
    fmt::print("{} tokens: {} positions agree, {} of them only when disturbed\n", length,
               std::count(agree.begin(), agree.end(), true), on_an_edge);
    EXPECT_EQ(std::count(agree.begin(), agree.end(), false), 0) << length << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Oracle, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace fathom
