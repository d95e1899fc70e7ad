// One request to the engine, its text streamed to the terminal.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/reply_text.h"
#include "engine/engine.h"

namespace fathom::cli {

// A little cooler than the model's own distribution: the long tail of a small or heavily quantised model is noise.
[[nodiscard]] SamplingParams default_sampling();

struct SamplingOptions {
  std::optional<int> max_tokens;  // unset: until the model ends or the context is full
  SamplingParams params = default_sampling();
  std::vector<std::string> stops;
};

struct GenerateOptions {
  ReplyText::Start start = ReplyText::Start::kAnswer;
  const std::atomic<bool>* interrupted = nullptr;  // true: stop at the next token
};

struct Reply {
  std::string answer;
  FinishEvent finish;
  bool interrupted = false;
};

// The answer goes to standard output, reasoning to stderr (dimmed on a terminal). Waits for the end. Throws what
// Engine::submit throws, what made the request fail, and kIo when standard output cannot be written.
[[nodiscard]] Reply generate(Engine& engine, const Tokenizer& tokenizer, std::vector<TokenId> prompt,
                             const SamplingOptions& sampling, const GenerateOptions& options);

// One line about the speed of a reply: "23 prompt tokens, 120.0 tok/s; 11 generated, 45.2 tok/s; seed 7".
[[nodiscard]] std::string speed_line(const FinishEvent& finish, const SamplingParams& params);

}  // namespace fathom::cli
