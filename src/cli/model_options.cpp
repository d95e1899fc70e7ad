#include "cli/model_options.h"

#include "cli/bundled_model.h"

namespace fathom::cli {

std::string model_path(const std::string& model) {
  return model.empty() ? find_bundled_model(executable_path()) : model;
}

RunnerConfig runner_config(const ModelOptions& options) {
  RunnerConfig config;
  config.model_path = model_path(options.model);
  config.backend.kind = options.backend;
  config.backend.threads = options.threads;
  config.backend.cache.activation_sim = options.activation_sim;
  config.backend.cache.kv_type = options.kv_type.value_or(KvType::kF32);
  return config;
}

}  // namespace fathom::cli
