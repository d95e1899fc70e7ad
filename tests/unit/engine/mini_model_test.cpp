// The engine over a real, tiny model on the reference backend: a request's tokens are those that the model gives when
// it runs alone, one row after the other.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backend/tracing_ops.h"
#include "engine/engine.h"
#include "model/config_reader.h"
#include "recorder.h"
#include "sampling/sampler.h"

namespace fathom {
namespace {

EngineConfig mini_config() {
  EngineConfig config;
  config.runner.model_path = FATHOM_TEST_DATA_DIR "/oracle/mini";
  config.runner.backend.kind = BackendKind::kReference;
  config.runner.backend.max_rows = 24;
  config.runner.max_context = 300;
  config.runner.max_sequences = 4;
  config.max_mixed_rows = 10;
  return config;
}

GenerationRequest request_of(int n_prompt, int salt, int max_tokens) {
  GenerationRequest request;
  for (int i = 0; i < n_prompt; ++i) {
    request.prompt.push_back((i * 31 + salt * 17 + i * i % 7) % 256);
  }
  request.sampling.seed = static_cast<uint64_t>(salt);
  request.sampling.temperature = salt % 2 == 0 ? 0.0F : 1.0F;
  request.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> generated_alone(const GenerationRequest& request) {
  const auto runner = ModelRunner::open(mini_config().runner);
  Sampler sampler(request.sampling, runner->vocab(), request.prompt);
  SamplingBuffers buffers;
  SequenceCache sequence = runner->make_sequence();
  std::vector<TokenId> tokens = request.prompt;
  for (size_t fed = 0; tokens.size() < request.prompt.size() + static_cast<size_t>(*request.max_tokens); ++fed) {
    const StepInput input{.sequence = &sequence, .tokens = std::span(tokens).subspan(fed, 1), .n_logits = 1};
    const HostMat<const float> logits = runner->run({&input, 1});
    if (fed + 1 == tokens.size()) {
      tokens.push_back(sampler.sample(logits.row(0), static_cast<int>(tokens.size()), buffers));
      sampler.accept(tokens.back());
    }
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()), tokens.end()};
}

TEST(MiniModel, CompanionsDoNotChangeTheTokens) {
  const auto engine = Engine::open(mini_config());
  // Lengths on both sides of the window and of the blocks that layers compress.
  const std::vector<GenerationRequest> requests{request_of(3, 1, 10), request_of(130, 2, 4), request_of(17, 3, 10),
                                                request_of(1, 4, 10)};
  std::deque<Recorder> recorders(requests.size());
  std::vector<RequestHandle> handles;
  for (size_t i = 0; i < requests.size(); ++i) {
    handles.push_back(submit(*engine, requests[i], recorders[i]));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    handles[i].wait();
    EXPECT_EQ(recorders[i].tokens, generated_alone(requests[i])) << "request " << i;
    EXPECT_EQ(recorders[i].finish().reason, FinishReason::kLength);
  }
}

// A backend whose step broke off in the middle serves the next requests as if nothing had happened.
TEST(MiniModel, BackendRecoversFromABrokenStep) {
  const EngineConfig config = mini_config();
  auto source = WeightSource::open(config.runner.model_path);
  const ModelConfig model = read_config(*source);
  int n_seen = 0;
  auto ops = std::make_unique<TracingOps>(make_ops(model, config.runner.backend),
                                          TraceSink{.floats =
                                                        [&](const std::string& name, HostMat<const float>) {
                                                          if (name == "L2.attn_out" && ++n_seen == 2) {
                                                            throw Error(ErrorCode::kDevice, "injected");
                                                          }
                                                        },
                                                    .ints = [](const std::string&, HostMat<const int32_t>) {}});
  const auto engine =
      Engine::start(std::make_unique<ModelRunner>(std::move(source), model, std::move(ops), config.runner), config);
  Recorder recorder;
  submit(*engine, request_of(60, 6, 10), recorder).wait();
  EXPECT_EQ(recorder.finish().reason, FinishReason::kError);
  EXPECT_STREQ(recorder.finish().error->what(), "injected");
  EXPECT_EQ(engine->stats().cache_blocks_used, 0);
  Recorder next;
  submit(*engine, request_of(30, 7, 5), next).wait();
  EXPECT_EQ(next.tokens, generated_alone(request_of(30, 7, 5)));
}

}  // namespace
}  // namespace fathom
