#include "cli/chat.h"

#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstdio>

#include "cli/exit_code.h"
#include "cli/line_reader.h"
#include "cli/text_io.h"
#include "cli/text_model.h"
#include "core/error.h"
#include "server/prompt_tokens.h"

namespace fathom::cli {
namespace {

constexpr const char* kHelp =
    "/help   this list\n"
    "/clear  forget the conversation\n"
    "/exit   leave (or Ctrl+D)\n"
    "Ctrl+C stops a reply. A line that ends in \\ continues on the next.\n";

std::atomic<bool> g_interrupted = false;  // a signal handler reaches nothing else

// While it lives, Ctrl+C sets g_interrupted instead of ending the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    g_interrupted = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { g_interrupted = true; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &previous_);
  }
  ~InterruptGuard() { ::sigaction(SIGINT, &previous_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction previous_ = {};
};

class Conversation {
 public:
  Conversation(const ChatCommandOptions& options, std::unique_ptr<ModelRunner> runner, const EngineConfig& config)
      : options_(options), tokenizer_(load_tokenizer(runner->source())), dialect_(chat_dialect(runner->source())) {
    static_cast<void>(tokenizer_.require_chat_tokens());
    engine_ = Engine::start(std::move(runner), config);
    clear();
  }

  void clear() {
    messages_.clear();
    if (!options_.system.empty()) {
      messages_.push_back({Role::kSystem, options_.system});
    }
  }

  void ask(std::string text) {
    messages_.push_back({Role::kUser, std::move(text)});
    try {
      answer();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kContextBound) {
        throw;
      }
      messages_.pop_back();
      std::fputs(
          fmt::format("{}\nThe conversation has become too long; /clear begins a new one.\n", error.what()).c_str(),
          stderr);
    }
  }

 private:
  void answer() {
    const RenderedPrompt prompt = render_chat(messages_, {.dialect = dialect_, .thinking = options_.thinking});
    Reply reply;
    {
      const InterruptGuard guard;
      const bool thinks = options_.thinking != Thinking::kOff;
      reply = generate(
          *engine_, tokenizer_, encode_prompt(tokenizer_, prompt), options_.sampling,
          {.start = thinks ? ReplyText::Start::kReasoning : ReplyText::Start::kAnswer, .interrupted = &g_interrupted});
    }
    write_stdout("\n");
    if (options_.verbose) {
      std::fputs(fmt::format("{}\n", speed_line(reply.finish, options_.sampling.params)).c_str(), stderr);
    }
    messages_.push_back({Role::kAssistant, std::move(reply.answer)});
  }

  const ChatCommandOptions& options_;
  Tokenizer tokenizer_;
  ChatDialect dialect_;
  std::unique_ptr<Engine> engine_;
  std::vector<ChatMessage> messages_;
};

// One message: a line, and the lines after it while they end in a backslash.
std::optional<std::string> read_message(LineReader& first, LineReader& next) {
  std::optional<std::string> message = first.read();
  while (message && message->ends_with('\\')) {
    message->back() = '\n';
    const std::optional<std::string> more = next.read();
    if (!more) {
      break;
    }
    *message += *more;
  }
  return message;
}

}  // namespace

int chat(const ChatCommandOptions& options) {
  EngineConfig config;
  config.runner = runner_config(options.model);
  config.runner.max_logits = 1;  // one sequence, one next token
  apply(options.prefixes, config);
  Conversation conversation(options, ModelRunner::open(config.runner), config);

  LineReader first("> ");
  LineReader next(". ");
  if (stdin_is_terminal()) {
    std::fputs("/help lists the commands.\n", stderr);
  }
  while (std::optional<std::string> message = read_message(first, next)) {
    if (*message == "/exit") {
      break;
    }
    if (*message == "/clear") {
      conversation.clear();
    } else if (*message == "/help") {
      std::fputs(kHelp, stderr);
    } else if (message->starts_with('/')) {
      std::fputs(fmt::format("{}: no such command; /help lists them\n", *message).c_str(), stderr);
    } else if (message->find_first_not_of(" \t\n") != std::string::npos) {
      conversation.ask(replace_invalid_utf8(*message));
    }
  }
  return kExitOk;
}

}  // namespace fathom::cli
