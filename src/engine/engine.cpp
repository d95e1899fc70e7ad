#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "engine/batch_engine.h"

namespace fathom {

std::unique_ptr<Engine> Engine::open(const EngineConfig& config) {
  // Beside the drawing rows, some for prompts whose log-probabilities are wanted; all of them would be as many
  // vocabularies of floats as a step has rows.
  constexpr int kPromptLogits = 64;
  EngineConfig adjusted = config;
  if (adjusted.runner.max_logits == 0) {
    adjusted.runner.max_logits =
        std::min(adjusted.runner.max_sequences + kPromptLogits, adjusted.runner.backend.max_rows);
  }
  return start(ModelRunner::open(adjusted.runner), adjusted);
}

std::unique_ptr<Engine> Engine::start(std::unique_ptr<ModelRunner> runner, const EngineConfig& config) {
  return std::make_unique<BatchEngine>(std::move(runner), config);
}

}  // namespace fathom
