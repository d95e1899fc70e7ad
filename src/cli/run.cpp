#include "cli/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <random>

#include "cli/exit_code.h"
#include "cli/text_io.h"
#include "cli/text_model.h"
#include "server/prompt_tokens.h"

namespace fathom::cli {
namespace {

std::string prompt_text(const RunOptions& options) {
  std::string text = options.prompt ? *options.prompt : read_text(options.prompt_file);
  // The newline that ends a text file is no part of what was asked.
  if (!options.prompt && options.mode != RunOptions::Mode::kRaw && text.ends_with('\n')) {
    text.pop_back();
  }
  return replace_invalid_utf8(text);
}

RunOptions::Mode choose_mode(const RunOptions& options, const Tokenizer& tokenizer) {
  if (options.mode == RunOptions::Mode::kChat || !options.system.empty()) {
    static_cast<void>(tokenizer.require_chat_tokens());
    return RunOptions::Mode::kChat;
  }
  if (options.mode != RunOptions::Mode::kAuto) {
    return options.mode;
  }
  return has_chat_tokens(tokenizer) ? RunOptions::Mode::kChat : RunOptions::Mode::kRaw;
}

}  // namespace

int run(const RunOptions& options) {
  if (!options.prompt && options.prompt_file.empty()) {
    throw UsageError("run needs a prompt: give it as text or with -f FILE");
  }
  const std::string text = prompt_text(options);
  EngineConfig config;
  config.runner = runner_config(options.model);
  config.runner.max_logits = 1;  // one sequence, one next token
  std::unique_ptr<ModelRunner> runner = ModelRunner::open(config.runner);
  const Tokenizer tokenizer = load_tokenizer(runner->source());

  GenerateOptions generate_options;
  RenderedPrompt prompt;
  if (choose_mode(options, tokenizer) == RunOptions::Mode::kChat) {
    const ChatOptions chat{.dialect = chat_dialect(runner->source()), .thinking = options.thinking};
    std::vector<ChatMessage> messages;
    if (!options.system.empty()) {
      messages.push_back({Role::kSystem, replace_invalid_utf8(options.system)});
    }
    messages.push_back({Role::kUser, text});
    prompt = render_chat(messages, chat);
    generate_options.start =
        options.thinking == Thinking::kOff ? ReplyText::Start::kAnswer : ReplyText::Start::kReasoning;
  } else {
    prompt = render_raw(text);
    generate_options.start = ReplyText::Start::kRaw;
  }

  SamplingOptions sampling = options.sampling;
  if (!sampling.params.seed) {
    sampling.params.seed = std::random_device()();
  }
  const std::unique_ptr<Engine> engine = Engine::start(std::move(runner), config);
  const Reply reply = generate(*engine, tokenizer, encode_prompt(tokenizer, prompt), sampling, generate_options);
  if (!reply.answer.ends_with('\n')) {
    write_stdout("\n");
  }
  if (options.verbose || stderr_is_terminal()) {
    std::fputs(fmt::format("{}\n", speed_line(reply.finish, sampling.params)).c_str(), stderr);
  }
  return kExitOk;
}

}  // namespace fathom::cli
