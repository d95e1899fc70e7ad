#include "cli/model_options.h"

#include "cli/bundled_model.h"

namespace fathom::cli {

std::string model_path(const std::string& model) {
  return model.empty() ? find_bundled_model(executable_path()) : model;
}

KvType default_kv_type(BackendKind backend, bool activation_sim) noexcept {
  return backend != BackendKind::kReference && activation_sim ? KvType::kPacked : KvType::kF32;
}

BackendOptions backend_options(const ModelOptions& options) {
  BackendOptions backend;
  backend.kind = options.backend;
  backend.isa = options.isa;
  backend.threads = options.threads;
  backend.repack = options.repack;
  backend.device = options.device;
  backend.gpu_memory = options.gpu_memory;
  backend.cache.activation_sim = options.activation_sim;
  backend.cache.kv_type = options.kv_type.value_or(default_kv_type(options.backend, options.activation_sim));
  return backend;
}

void apply(const PrefixOptions& options, EngineConfig& config) {
  config.runner.prefix_bytes = options.cache_budget;
  config.anchor_interval = options.anchor_interval;
  config.kv_dir = options.kv_dir;
  config.kv_budget = options.kv_budget;
}

RunnerConfig runner_config(const ModelOptions& options) {
  RunnerConfig config;
  config.model_path = model_path(options.model);
  config.backend = backend_options(options);
  return config;
}

}  // namespace fathom::cli
