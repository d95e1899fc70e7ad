// fathom run: one prompt in, its answer or continuation out.
#pragma once

#include <optional>
#include <string>

#include "chat/prompt.h"
#include "cli/generate.h"
#include "cli/model_options.h"

namespace fathom::cli {

struct RunOptions {
  enum class Mode : uint8_t { kAuto, kChat, kRaw };

  ModelOptions model;
  std::optional<std::string> prompt;
  std::string prompt_file;  // "-": standard input
  std::string system;       // before the prompt, in a chat only
  SamplingOptions sampling;
  Mode mode = Mode::kAuto;  // kAuto: a chat if the model has the tokens for it
  Thinking thinking = Thinking::kOff;
  bool verbose = false;
};

[[nodiscard]] int run(const RunOptions& options);

}  // namespace fathom::cli
