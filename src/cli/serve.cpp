#include "cli/serve.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/exit_code.h"
#include "cli/text_model.h"
#include "core/log.h"
#include "server/api_keys.h"

namespace fathom::cli {
namespace {

// Takes SIGINT and SIGTERM for the whole program while it lives. Made before any other thread, which then all leave the
// two signals to this one.
class SignalThread {
 public:
  SignalThread() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~SignalThread() {
    done_ = true;
    thread_.join();
    ::pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  }
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // Before this, a signal ends the program.
  void shuts_down(Server& server, std::chrono::milliseconds grace) {
    grace_ = grace;
    server_ = &server;
  }

 private:
  void run() {
    const timespec step{.tv_sec = 0, .tv_nsec = 100'000'000};
    std::thread ending;
    while (!done_) {
      const int signal = ::sigtimedwait(&signals_, nullptr, &step);
      if (signal < 0) {
        continue;
      }
      Server* const server = server_;
      if (server == nullptr) {
        std::_Exit(128 + signal);
      }
      if (!ending.joinable()) {
        log_info("ending: no new requests; a second signal ends those in progress");
        ending = std::thread([server, grace = grace_.load()] { server->shut_down(grace); });
      } else {
        server->shut_down(std::chrono::milliseconds(0));
      }
    }
    if (ending.joinable()) {
      ending.join();
    }
  }

  sigset_t signals_ = {};
  std::atomic<bool> done_ = false;
  std::atomic<Server*> server_ = nullptr;
  std::atomic<std::chrono::milliseconds> grace_ = {};
  std::thread thread_;
};

EngineConfig engine_config(const ServeOptions& options) {
  EngineConfig config;
  config.runner = runner_config(options.model);
  config.runner.max_context = options.context;
  config.runner.max_sequences = options.max_sequences;
  config.runner.cache_bytes = options.cache_bytes;
  config.runner.prefix_bytes = options.prefix_bytes;
  config.max_queue = options.max_queue;
  config.kv_dir = options.kv_dir;
  config.kv_budget = options.kv_budget;
  return config;
}

int64_t modified_seconds(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) {
    return 0;
  }
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

}  // namespace

int serve(const ServeOptions& options) {
  init_logging(options.log_level);
  SignalThread signals;
  ServerConfig server_config = options.server;
  if (!options.key_file.empty()) {
    const std::vector<std::string> keys = read_key_file(options.key_file);
    server_config.api_keys.insert(server_config.api_keys.end(), keys.begin(), keys.end());
  }
  const EngineConfig config = engine_config(options);
  std::unique_ptr<ModelRunner> runner = ModelRunner::open(config.runner);
  const std::string path = runner->source().path();
  const Tokenizer tokenizer = load_tokenizer(runner->source());
  static_cast<void>(tokenizer.require_chat_tokens());
  const ChatDialect dialect = options.dialect.value_or(chat_dialect(runner->source()));
  const std::string id =
      options.name.empty() ? std::filesystem::path(path).lexically_normal().stem().string() : options.name;

  const std::unique_ptr<Engine> engine = Engine::start(std::move(runner), config);
  ServedModel model{.engine = *engine,
                    .tokenizer = tokenizer,
                    .id = id,
                    .created = modified_seconds(path),
                    .dialect = dialect,
                    .strict_official_tokens = options.strict_official_tokens,
                    .defaults = options.defaults};
  if (options.request_timeout_s > 0) {
    model.request_timeout = std::chrono::seconds(options.request_timeout_s);
  }
  Server server(model, server_config);
  const int port = server.bind();
  signals.shuts_down(server, std::chrono::seconds(options.grace_s));
  log_info(fmt::format("serving {} at http://{}:{}, {} tokens of context", id, server_config.host, port,
                       engine->max_context()));
  server.serve();
  return kExitOk;
}

}  // namespace fathom::cli
