// The HTTP server of one engine: routes, keys, log and metrics, and how it ends.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/http.h"
#include "server/served_model.h"

namespace fathom {

struct ServerConfig {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: a free one
  HttpLimits limits = {};
  std::vector<std::string> api_keys = {};       // empty: anybody may ask
  bool cors = false;                            // pages of any origin may ask
  std::chrono::milliseconds keep_alive{10000};  // how long a stream may be silent
  bool log_prompts = false;
};

class Server {
 public:
  Server(const ServedModel& model, const ServerConfig& config);
  ~Server();

  // Returns the port. Throws Error kIo.
  int bind();
  // Until shut_down(), and until every request is over.
  void serve();
  // From any thread, also before serve(): no new requests; those in progress have so long to finish, then they end with
  // an error. Returns when they are told.
  void shut_down(std::chrono::milliseconds grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
