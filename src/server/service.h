// What all endpoints share: the served model and what the server keeps between requests.
#pragma once

#include <atomic>
#include <chrono>

#include "server/engine_health.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace fathom {

struct Service {
  ServedModel model;
  std::chrono::milliseconds keep_alive{10000};  // how long a stream may be silent
  bool log_prompts = false;

  Metrics metrics = {};
  EngineHealth health = {};
  std::atomic<bool> ending = false;  // generations in progress end now
};

// Throws ApiError kOverloaded when the engine cannot serve, or the server ends.
void require_healthy(Service& service);

}  // namespace fathom
