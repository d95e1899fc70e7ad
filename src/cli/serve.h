// fathom serve: HTTP APIs of one model.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "core/log.h"
#include "engine/engine.h"
#include "server/server.h"

namespace fathom::cli {

struct ServeOptions {
  ModelOptions model;
  int context = 0;        // positions of one sequence; 0: what the model was trained for
  int max_sequences = 8;  // that run at the same time
  int max_queue = 256;
  size_t cache_bytes = 0;                 // of all sequences together; 0: enough for all
  size_t prefix_bytes = size_t{1} << 30;  // what ended sequences leave behind for later ones
  std::string kv_dir;                     // where that outlives the server; empty: nowhere
  uint64_t kv_budget = 0;                 // bytes there; 0: no bound
  std::string name;                       // what the API calls the model; empty: its own name
  ServerConfig server;
  std::string key_file;
  std::optional<ChatDialect> dialect;  // unset: as the file tells
  bool strict_official_tokens = false;
  RequestDefaults defaults;
  LogLevel log_level = LogLevel::kInfo;
  int request_timeout_s = 0;  // 0: none
  int grace_s = 30;           // for requests in progress when the server ends
};

// Until SIGINT or SIGTERM; a second one ends at once what is still in progress.
[[nodiscard]] int serve(const ServeOptions& options);

}  // namespace fathom::cli
