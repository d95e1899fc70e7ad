// The engine: one thread that owns the model, and runs one step after the other over whatever requests there are.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/live_request.h"
#include "engine/scheduler.h"

namespace fathom {

class BatchEngine final : public Engine {
 public:
  BatchEngine(std::unique_ptr<ModelRunner> runner, const EngineConfig& config);
  ~BatchEngine() override;

  [[nodiscard]] std::optional<RequestHandle> submit(GenerationRequest request, GenerationCallbacks callbacks) override;
  [[nodiscard]] int max_context() const override { return max_context_; }
  [[nodiscard]] EngineStats stats() const override;

 private:
  // On the engine's thread.
  void run();
  [[nodiscard]] bool collect();
  void sweep();
  void step();
  void set_active(int n_active);
  void run_rows(std::span<const int> rows);
  // `done` collects what this step adds to the statistics.
  void advance(LiveRequest& request, HostMat<const float> logits, EngineStats& done);
  void count_step(const EngineStats& done);
  void fail_all(const Error& error);

  std::unique_ptr<ModelRunner> runner_;
  Scheduler scheduler_;
  int vocab_;
  int max_context_;
  size_t max_unfinished_;

  // Touched by the engine's thread alone. In order of arrival; the first n_active_ own cache.
  std::vector<std::unique_ptr<LiveRequest>> line_;
  int n_active_ = 0;
  SamplingBuffers buffers_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  std::vector<std::unique_ptr<LiveRequest>> inbox_;
  size_t n_unfinished_ = 0;
  bool stopping_ = false;
  EngineStats stats_;

  std::thread thread_;
};

}  // namespace fathom
