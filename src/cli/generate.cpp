#include "cli/generate.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "cli/text_io.h"
#include "core/check.h"

namespace fathom::cli {
namespace {

constexpr const char* kDim = "\033[2m";
constexpr const char* kPlain = "\033[0m";

void write_reasoning(const std::string& text) {
  const bool dim = stderr_is_terminal();
  std::fputs(fmt::format("{}{}{}", dim ? kDim : "", text, dim ? kPlain : "").c_str(), stderr);
  std::fflush(stderr);
}

// What the callbacks of one request share; they run on the engine's thread while this one waits.
class Stream {
 public:
  Stream(const Tokenizer& tokenizer, const SamplingOptions& sampling, const GenerateOptions& options)
      : text_(tokenizer, options.start, sampling.stops), options_(options) {}

  [[nodiscard]] GenerationCallbacks callbacks() {
    return {.on_prompt = [this](const PromptEvent&) { return !interrupted(); },
            .on_token = [this](const TokenEvent& event) { return on_token(event.token); },
            .on_finish = [this](const FinishEvent& event) { reply_.finish = event; }};
  }

  // After the request has finished.
  [[nodiscard]] Reply take() {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    if (reply_.finish.error) {
      throw Error(*reply_.finish.error);
    }
    write(text_.finish());
    end_reasoning();
    reply_.interrupted = interrupted();
    return std::move(reply_);
  }

 private:
  [[nodiscard]] bool interrupted() const { return options_.interrupted != nullptr && *options_.interrupted; }

  bool on_token(TokenId token) {
    if (interrupted()) {
      return false;
    }
    try {
      write(text_.push(token));
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
    return !text_.stopped();
  }

  void write(const ReplyPiece& piece) {
    if (!piece.reasoning.empty()) {
      write_reasoning(piece.reasoning);
      reasoning_open_ = true;
    }
    if (!piece.answer.empty()) {
      end_reasoning();
      write_stdout(piece.answer);
      reply_.answer += piece.answer;
    }
  }

  void end_reasoning() {
    if (reasoning_open_) {
      write_reasoning("\n\n");
      reasoning_open_ = false;
    }
  }

  ReplyText text_;
  GenerateOptions options_;
  Reply reply_;
  bool reasoning_open_ = false;
  std::exception_ptr failure_;
};

double rate(int tokens, double seconds) { return seconds > 0.0 ? tokens / seconds : 0.0; }

}  // namespace

SamplingParams default_sampling() {
  SamplingParams params;
  params.temperature = 0.7F;
  params.top_p = 0.95F;
  return params;
}

Reply generate(Engine& engine, const Tokenizer& tokenizer, std::vector<TokenId> prompt, const SamplingOptions& sampling,
               const GenerateOptions& options) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling = sampling.params;
  request.max_tokens = sampling.max_tokens;
  if (tokenizer.eos()) {
    request.stop_tokens.push_back(*tokenizer.eos());
  }
  Stream stream(tokenizer, sampling, options);
  std::optional<RequestHandle> handle = engine.submit(std::move(request), stream.callbacks());
  FATHOM_CHECK(handle.has_value(), "the queue of an engine with one request is never full");
  handle->wait();
  return stream.take();
}

std::string speed_line(const FinishEvent& finish, const SamplingParams& params) {
  // The first generated token comes out of the prompt's last step.
  std::string line = fmt::format("{} prompt tokens, {:.1f} tok/s; {} generated, {:.1f} tok/s", finish.n_prompt,
                                 rate(finish.n_prompt, finish.prefill_seconds), finish.n_generated,
                                 rate(std::max(finish.n_generated - 1, 0), finish.decode_seconds));
  if (params.temperature > 0.0F && params.seed) {
    line += fmt::format("; seed {}", *params.seed);
  }
  return line;
}

}  // namespace fathom::cli
