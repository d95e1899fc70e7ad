// What all endpoints share: the served model and what the server keeps between requests.
#pragma once

#include <chrono>

#include "server/served_model.h"

namespace fathom {

struct Service {
  ServedModel model;
  std::chrono::milliseconds keep_alive{10000};  // how long a stream may be silent
  bool log_prompts = false;
};

}  // namespace fathom
