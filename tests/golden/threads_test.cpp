// The number of threads decides who computes an output, never how: the bundled model's logits are the same bits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model_runner.h"

namespace fathom {
namespace {

std::vector<float> logits(BackendKind backend, int threads) {
  RunnerConfig config;
  config.model_path = FATHOM_BUNDLED_MODEL;
  config.backend.kind = backend;
  config.backend.threads = threads;
  config.max_context = 256;
  const auto runner = ModelRunner::open(config);
  std::vector<TokenId> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(20 + i * 37 % 1000);
  }
  std::vector<float> all;
  SequenceCache sequence = runner->make_sequence();
  // Steps of many rows and of one take different ways through a backend.
  for (const auto& [first, n] : {std::pair<size_t, size_t>{0, 30}, {30, 1}, {31, 1}, {32, 8}}) {
    runner->feed(sequence, std::span(tokens).subspan(first, n), static_cast<int>(n),
                 [&](int /*position*/, HostMat<const float> rows) {
                   for (int r = 0; r < rows.rows(); ++r) {
                     all.insert(all.end(), rows.row(r).begin(), rows.row(r).end());
                   }
                 });
  }
  return all;
}

class Threads : public testing::TestWithParam<BackendKind> {};

TEST_P(Threads, DoNotChangeABit) {
  const std::vector<float> one = logits(GetParam(), 1);
  for (const int threads : {2, 3, 8}) {
    EXPECT_EQ(logits(GetParam(), threads), one) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Threads, testing::Values(BackendKind::kReference, BackendKind::kCpu),
                         [](const auto& param) { return std::string(backend_name(param.param)); });

}  // namespace
}  // namespace fathom
