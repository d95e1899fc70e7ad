// fathom inspect: what a model file holds and what running it takes. Reads no weights.
#pragma once

#include <optional>
#include <string>

#include "backend/cache_layout.h"

namespace fathom::cli {

struct InspectOptions {
  std::string model;  // empty: the bundled one
  bool tensors = false;
  bool plan = false;
  std::optional<int> context;  // of the plan; unset: what the model was trained for
  int sequences = 1;           // of the plan
  bool activation_sim = true;  // of the plan
  std::optional<KvType> kv_type;
  bool json = false;
};

[[nodiscard]] int inspect(const InspectOptions& options);

}  // namespace fathom::cli
