// A made-up model for tests of the engine. Its logits after a row depend on every token of the sequence up to it, read
// back from the cache blocks, and on nothing else: a row that is lost, stale or of another sequence changes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model_runner.h"
#include "sampling/sampling_params.h"
#include "support/fake_ops.h"

namespace fathom {

inline constexpr int kToyVocab = 50;
inline constexpr int kToyBlock = 16;  // positions per block
// Its logits are NaN at every position after it.
inline constexpr TokenId kToyPoison = 49;

// The logits that follow `tokens`.
[[nodiscard]] std::vector<float> toy_logits(std::span<const TokenId> tokens);

// What a request must generate, computed from the tokens alone: no cache, no engine.
[[nodiscard]] std::vector<TokenId> toy_continuation(std::vector<TokenId> tokens, const SamplingParams& params, int n);

// A prompt of ordinary tokens, different for every `salt`.
[[nodiscard]] std::vector<TokenId> toy_prompt(int n, int salt = 0);

class ToyOps final : public FakeOps {
 public:
  using StepHook = std::function<void(const StepBatch&)>;

  // `on_step` is called at the beginning of every step; it may throw or block.
  ToyOps(StepHook on_step, int context_length);

  Weight upload(const Weight& weight, WeightRole /*role*/) override { return weight; }
  DeviceMat<float> make_f32(int rows, int cols) override { return {nullptr, rows, cols}; }
  DeviceMat<int32_t> make_i32(int rows, int cols) override { return {nullptr, rows, cols}; }
  void begin_step(const StepBatch& batch) override;
  void embed(const Weight& /*table*/, DeviceMat<float> /*streams*/) override {}
  void hc_collapse(const HcWeights& /*hc*/, const Weight& /*norm*/, DeviceMat<const float> /*streams*/,
                   DeviceMat<float> /*x*/) override {}
  void matmul(std::span<const Product> /*products*/, DeviceMat<const float> /*x*/) override {}
  void end_step(DeviceMat<const float> logits, HostMat<float> out) override;

 private:
  void store(const SequenceSlice& slice);
  [[nodiscard]] std::vector<TokenId> history(const SequenceSlice& slice, int n);

  StepHook on_step_;
  StepBatch batch_;
};

[[nodiscard]] std::unique_ptr<ModelRunner> toy_runner(const RunnerConfig& config, ToyOps::StepHook on_step = {});
[[nodiscard]] std::unique_ptr<Engine> toy_engine(const EngineConfig& config, ToyOps::StepHook on_step = {});

// Four sequences, 32 rows a step, 400 positions each.
[[nodiscard]] EngineConfig toy_config();

}  // namespace fathom
