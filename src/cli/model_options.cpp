#include "cli/model_options.h"

#include "cli/bundled_model.h"

namespace fathom::cli {

std::string model_path(const std::string& model) {
  return model.empty() ? find_bundled_model(executable_path()) : model;
}

KvType default_kv_type(BackendKind backend, bool activation_sim) noexcept {
  return backend != BackendKind::kReference && activation_sim ? KvType::kPacked : KvType::kF32;
}

RunnerConfig runner_config(const ModelOptions& options) {
  RunnerConfig config;
  config.model_path = model_path(options.model);
  config.backend.kind = options.backend;
  config.backend.threads = options.threads;
  config.backend.cache.activation_sim = options.activation_sim;
  config.backend.cache.kv_type = options.kv_type.value_or(default_kv_type(options.backend, options.activation_sim));
  return config;
}

}  // namespace fathom::cli
