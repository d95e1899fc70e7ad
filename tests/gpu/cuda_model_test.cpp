// Whole models on the GPU: the oracle fixtures with float32 activations all through, and the bundled model against the
// reference backend, in chunks and in replayed steps of one row.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/model_runner.h"
#include "model/config_reader.h"
#include "support/oracle.h"

namespace fathom {
namespace {

std::unique_ptr<ModelRunner> open(const std::string& path, BackendKind backend, CacheOptions cache) {
  RunnerConfig config;
  config.model_path = path;
  config.backend.kind = backend;
  config.backend.max_rows = 512;
  config.backend.cache = cache;
  config.max_context = 1024;
  config.max_sequences = 2;
  return ModelRunner::open(config);
}

std::vector<float> run(ModelRunner& runner, const std::vector<TokenId>& tokens, int chunk) {
  std::vector<float> logits;
  SequenceCache sequence = runner.make_sequence();
  runner.feed(sequence, tokens, chunk, [&](int /*position*/, HostMat<const float> rows) {
    for (int r = 0; r < rows.rows(); ++r) {
      logits.insert(logits.end(), rows.row(r).begin(), rows.row(r).end());
    }
  });
  return logits;
}

// Steps of up to eight rows never narrow the activations that meet float weights.
TEST(CudaModel, OracleFixturesAgree) {
  constexpr float kTolerance = 5e-3F;
  for (const test::Fixture& fixture : test::oracle_fixtures()) {
    const test::ReferenceTensors ref((fixture.dir / "ref.safetensors").string());
    const auto runner = open(fixture.dir.string(), BackendKind::kCuda, {.activation_sim = false});
    for (const int length : ref.lengths("tok")) {
      const std::string name = fmt::format("logits.{}", length);
      if (!ref.has(name)) {
        fmt::print("  {}: no logits of {} tokens\n", fixture.name, length);
        continue;
      }
      const std::vector<TokenId> tokens = ref.ints(fmt::format("tok.{}", length)).values;
      const auto expected = ref.floats(name);
      for (const int chunk : {1, 8}) {
        const std::vector<float> got = run(*runner, tokens, chunk);
        const size_t n = expected.values.size();
        ASSERT_LE(n, got.size());
        int left_out = 0;
        float worst = 0.0F;
        const auto vocab = static_cast<size_t>(expected.cols());
        for (size_t row = 0; row < n / vocab; ++row) {
          float difference = 0.0F;
          for (size_t v = 0; v < vocab; ++v) {
            const size_t i = row * vocab + v;
            const float d = std::abs(got[got.size() - n + i] - expected.values[i]);
            difference = std::isfinite(d) ? std::max(difference, d) : 1e9F;
          }
          worst = std::max(worst, difference);
        }
        fmt::print("  {:<16} {:4} tokens, chunks of {}: worst difference {:.1e}, {} positions left out\n", fixture.name,
                   length, chunk, worst, left_out);
        EXPECT_LE(worst, kTolerance) << fixture.name << " " << length;
      }
    }
  }
}

struct Agreement {
  double mean_kl = 0.0;
  double top1 = 0.0;
};

Agreement compare(const std::vector<float>& want, const std::vector<float>& got, size_t vocab) {
  Agreement a;
  const size_t rows = want.size() / vocab;
  for (size_t r = 0; r < rows; ++r) {
    const float* w = want.data() + r * vocab;
    const float* g = got.data() + r * vocab;
    const auto log_sum = [&](const float* x) {
      const double max = *std::max_element(x, x + vocab);
      double sum = 0.0;
      for (size_t v = 0; v < vocab; ++v) {
        sum += std::exp(static_cast<double>(x[v]) - max);
      }
      return max + std::log(sum);
    };
    const double zw = log_sum(w);
    const double zg = log_sum(g);
    for (size_t v = 0; v < vocab; ++v) {
      const double lw = static_cast<double>(w[v]) - zw;
      a.mean_kl += std::exp(lw) * (lw - (static_cast<double>(g[v]) - zg)) / static_cast<double>(rows);
    }
    a.top1 += std::max_element(w, w + vocab) - w == std::max_element(g, g + vocab) - g ? 1.0 / static_cast<double>(rows)
                                                                                       : 0.0;
  }
  return a;
}

TEST(CudaModel, BundledModelAgreesWithTheReference) {
  const std::filesystem::path path = std::filesystem::path(FATHOM_TEST_DATA_DIR) / "../../models/fathom-tiny.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no bundled model at " << path;
  }
  for (const bool simulated : {false, true}) {
    for (const KvType kv : {KvType::kF32, KvType::kPacked}) {
      if (kv == KvType::kPacked && !simulated) {
        continue;
      }
      const CacheOptions cache{.activation_sim = simulated, .kv_type = kv};
      const auto reference = open(path.string(), BackendKind::kReference, cache);
      const auto cuda = open(path.string(), BackendKind::kCuda, cache);
      std::vector<TokenId> tokens(300);
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<TokenId>((i * 37 + i * i * 11 + 5) % static_cast<size_t>(reference->vocab()));
      }
      const std::vector<float> want = run(*reference, tokens, 300);
      for (const int chunk : {300, 64, 7, 1}) {
        const Agreement a = compare(want, run(*cuda, tokens, chunk), static_cast<size_t>(reference->vocab()));
        fmt::print("  bundled model, simulation {}, {} rows, chunks of {:3}: mean KL {:.1e}, top-1 {:.1f} %\n",
                   simulated ? "on" : "off", kv == KvType::kPacked ? "packed" : "f32", chunk, a.mean_kl,
                   100.0 * a.top1);
        // Bundled weights are Q8_0: few rows keep 15 bits of the activations, many rows bf16's eight.
        EXPECT_LE(a.mean_kl, simulated ? 2e-3 : chunk > 64 ? 2e-3 : 1e-6) << "chunk " << chunk;
        EXPECT_GE(a.top1, 0.99) << "chunk " << chunk;
      }
    }
  }
}

TEST(CudaModel, TwoSequencesInOneStepAgreeWithEachAlone) {
  const std::filesystem::path path = std::filesystem::path(FATHOM_TEST_DATA_DIR) / "../../models/fathom-tiny.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no bundled model at " << path;
  }
  const auto runner = open(path.string(), BackendKind::kCuda, {.activation_sim = false});
  const auto vocab = static_cast<size_t>(runner->vocab());
  std::vector<TokenId> a(40);
  std::vector<TokenId> b(40);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<TokenId>((i * 37 + 5) % vocab);
    b[i] = static_cast<TokenId>((i * 91 + 17) % vocab);
  }
  std::vector<float> alone = run(*runner, a, 1);
  const std::vector<float> other = run(*runner, b, 1);
  alone.insert(alone.end(), other.begin(), other.end());
  std::vector<float> together(alone.size());
  SequenceCache first = runner->make_sequence();
  SequenceCache second = runner->make_sequence();
  for (size_t i = 0; i < a.size(); ++i) {
    const StepInput inputs[] = {{.sequence = &first, .tokens = std::span(a).subspan(i, 1), .n_logits = 1},
                                {.sequence = &second, .tokens = std::span(b).subspan(i, 1), .n_logits = 1}};
    const HostMat<const float> logits = runner->run(inputs);
    std::copy_n(logits.row(0).data(), vocab, together.data() + i * vocab);
    std::copy_n(logits.row(1).data(), vocab, together.data() + (a.size() + i) * vocab);
  }
  const Agreement agreement = compare(alone, together, vocab);
  fmt::print("  two sequences together: mean KL {:.1e}, top-1 {:.1f} %\n", agreement.mean_kl, 100.0 * agreement.top1);
  EXPECT_LE(agreement.mean_kl, 2e-3);
}

}  // namespace
}  // namespace fathom
