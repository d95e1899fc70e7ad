// fathom chat: a conversation on the terminal.
#pragma once

#include <string>

#include "chat/prompt.h"
#include "cli/generate.h"
#include "cli/model_options.h"

namespace fathom::cli {

struct ChatCommandOptions {
  ModelOptions model;
  PrefixOptions prefixes;
  std::string system;
  SamplingOptions sampling;
  Thinking thinking = Thinking::kOff;
  bool verbose = false;
};

[[nodiscard]] int chat(const ChatCommandOptions& options);

}  // namespace fathom::cli
