// The engine as server and command line see it: whole prompts in, tokens out, any number of requests at once.
// An interface because tests of the server script their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cache/prefix_cache.h"
#include "engine/generation.h"
#include "engine/model_runner.h"

namespace fathom {

struct EngineConfig {
  RunnerConfig runner;
  int max_mixed_rows = 128;  // prompt rows in a step that others decode in: what bounds their wait for a token
  int max_queue = 256;       // requests waiting beside the runner.max_sequences that run
  // With runner.prefix_bytes: where the middle of a known prompt is changed, at most so many tokens before the change
  // are computed again. Rounded up to whole blocks. 0: only requests say where that may be.
  int anchor_interval = 2048;
  // Kept prefixes are also written below this directory and found again by later engines with the same model and
  // settings; needs runner.prefix_bytes. Empty: they are not.
  std::string kv_dir = {};
  uint64_t kv_budget = 0;  // bytes of all models' files there; 0: no bound
};

struct EngineStats {
  int running = 0;
  int waiting = 0;
  int cache_blocks_used = 0;
  int cache_blocks_total = 0;
  size_t cache_bytes_used = 0;
  // Since the start.
  uint64_t requests_finished = 0;
  uint64_t requests_failed = 0;
  uint64_t prompt_tokens = 0;     // processed
  uint64_t generated_tokens = 0;  // drawn
  uint64_t preemptions = 0;       // sequences that gave their cache to older ones, to start over later
  uint64_t steps = 0;
  uint64_t steps_failed = 0;
  double step_seconds = 0.0;  // of all steps
  double last_step_seconds = 0.0;
  PrefixCacheStats prefix;
};

class Engine {
 public:
  // Loads the model and starts the engine's thread. Throws what ModelRunner::open throws, and kBadRequest for limits
  // that contradict each other.
  [[nodiscard]] static std::unique_ptr<Engine> open(const EngineConfig& config);
  // The same with a model that is loaded already; config.runner describes it.
  [[nodiscard]] static std::unique_ptr<Engine> start(std::unique_ptr<ModelRunner> runner, const EngineConfig& config);

  // Every request that has not finished is cancelled; its on_finish returns before this does.
  virtual ~Engine() = default;

  // From any thread. Empty when the queue is full. Throws kBadRequest (a field out of range, a token outside the
  // vocabulary) and kContextBound (the prompt is longer than the context).
  [[nodiscard]] virtual std::optional<RequestHandle> submit(GenerationRequest request,
                                                            GenerationCallbacks callbacks) = 0;
  // Positions of one sequence: prompt and generated tokens together, the last of them not counted.
  [[nodiscard]] virtual int max_context() const = 0;
  [[nodiscard]] virtual EngineStats stats() const = 0;
};

}  // namespace fathom
