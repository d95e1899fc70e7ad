// Options that every command with a running model shares, and what they mean to the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/model_runner.h"

namespace fathom::cli {

struct ModelOptions {
  std::string model;  // empty: the bundled one
  BackendKind backend = BackendKind::kAuto;
  std::string isa;        // cpu: a kernel table by name; empty: the best
  int threads = 0;        // 0: as many as this process may use
  bool repack = true;     // cpu: false leaves weights in the mapped file
  int device = 0;         // cuda: which GPU
  size_t gpu_memory = 0;  // cuda: bytes it may take; 0: what is free
  bool activation_sim = true;
  std::optional<KvType> kv_type;  // unset: what suits the backend
};

// What conversations leave behind for later ones (docs/cache.md).
struct PrefixOptions {
  size_t cache_budget = size_t{4} << 30;  // bytes of memory; 0: nothing is kept
  int anchor_interval = 2048;             // tokens that an edit in the middle costs at most
  std::string kv_dir;                     // empty: not on disk
  uint64_t kv_budget = 0;                 // bytes on disk; 0: no bound
};
// Before the model is opened with config.runner.
void apply(const PrefixOptions& options, EngineConfig& config);

// The model given or the bundled one. Throws Error kIo when there is neither.
[[nodiscard]] std::string model_path(const std::string& model);

// How cached rows are stored when nobody says: packed where that loses nothing but bits of the rotary dims, and in
// float32 on the reference backend.
[[nodiscard]] KvType default_kv_type(BackendKind backend, bool activation_sim) noexcept;

[[nodiscard]] BackendOptions backend_options(const ModelOptions& options);

// Throws Error kIo when there is no model.
[[nodiscard]] RunnerConfig runner_config(const ModelOptions& options);

}  // namespace fathom::cli
