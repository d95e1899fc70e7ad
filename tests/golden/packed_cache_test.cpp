// What packing the cache costs on the bundled model: only rotary dims lose precision, so next to nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

std::vector<float> run(KvType type, const std::vector<TokenId>& tokens) {
  RunnerConfig config;
  config.model_path = FATHOM_BUNDLED_MODEL;
  config.backend.kind = BackendKind::kReference;
  config.backend.cache.kv_type = type;
  config.max_context = 1024;
  const auto runner = ModelRunner::open(config);
  std::vector<float> logits;
  SequenceCache sequence = runner->make_sequence();
  runner->feed(sequence, tokens, 128, [&](int /*position*/, HostMat<const float> rows) {
    for (int r = 0; r < rows.rows(); ++r) {
      logits.insert(logits.end(), rows.row(r).begin(), rows.row(r).end());
    }
  });
  return logits;
}

// KL(p || q) of two rows of logits.
double divergence(const float* p, const float* q, size_t n) {
  const auto log_sum = [n](const float* x) {
    const double max = *std::max_element(x, x + n);
    return max + std::log(std::accumulate(x, x + n, 0.0, [max](double s, float v) { return s + std::exp(v - max); }));
  };
  const double zp = log_sum(p);
  const double zq = log_sum(q);
  double kl = 0.0;
  for (size_t i = 0; i < n; ++i) {
    kl += std::exp(p[i] - zp) * ((p[i] - zp) - (q[i] - zq));
  }
  return kl;
}

// Text of the kind the model knows.
std::vector<TokenId> stories() {
  const auto source = WeightSource::open(FATHOM_BUNDLED_MODEL);
  const Tokenizer tokenizer = Tokenizer::from_gguf(*source->gguf());
  std::string text;
  const char* names[] = {"Tom", "Lily", "Ben", "Mia", "Sam", "Anna"};
  const char* things[] = {"a red ball", "an old book", "a small boat", "a blue kite", "a warm coat", "a big cake"};
  for (size_t i = 0; i < 6; ++i) {
    text += fmt::format(
        "One day {0} went to the park with {1}. {0} was happy and played all day. Then {0} met {2}, who had {3}. \"Can "
        "I "
        "see it?\" asked {0}. \"Yes,\" said {2}. They played together until it was dark, and {0} went home. ",
        names[i], things[i], names[(i + 2) % 6], things[(i + 3) % 6]);
  }
  return tokenizer.encode(text, {});
}

TEST(PackedCache, CostsNextToNothing) {
  const std::vector<TokenId> tokens = stories();
  ASSERT_GT(tokens.size(), 300U);  // beyond the window, the first blocks of both compressors and the indexer's top-k
  const std::vector<float> floats = run(KvType::kF32, tokens);
  const std::vector<float> packed = run(KvType::kPacked, tokens);
  const size_t vocab = floats.size() / tokens.size();
  double sum = 0.0;
  double worst = 0.0;
  for (size_t r = 0; r < tokens.size(); ++r) {
    const double kl = divergence(floats.data() + r * vocab, packed.data() + r * vocab, vocab);
    sum += kl;
    worst = std::max(worst, kl);
  }
  const double mean = sum / static_cast<double>(tokens.size());
  fmt::print("mean KL of packed to float rows {:.2e}, worst {:.2e}, {} positions\n", mean, worst, tokens.size());
  EXPECT_LE(mean, 1e-4);
  EXPECT_GT(mean, 0.0);
}

}  // namespace
}  // namespace fathom
