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
  [[nodiscard]] int max_context() const override { return request_limits_.max_context; }
  [[nodiscard]] EngineStats stats() const override;

 private:
  // On the engine's thread.
  void run();
  [[nodiscard]] bool collect();
  void sweep();
  void step();
  [[nodiscard]] std::vector<LineEntry> entries();
  void set_active(int n_active);
  void begin(LiveRequest& request, std::span<const std::unique_ptr<LiveRequest>> older);
  void end_waits();
  void resume(LiveRequest& request);
  void run_rows(std::span<const int> rows);
  // Blocks for the rows of a step, at the expense of kept prefixes.
  void make_room(std::span<const StepInput> inputs);
  void leave_anchors(LiveRequest& request, bool last) noexcept;
  // `done` collects what this step adds to the statistics.
  void advance(LiveRequest& request, HostMat<const float> logits, EngineStats& done);
  void count_step(const EngineStats& done);
  void fail_all(const Error& error);

  std::unique_ptr<ModelRunner> runner_;
  Scheduler scheduler_;
  LiveRequest::Limits request_limits_;
  size_t max_unfinished_;

  // Touched by the engine's thread alone. In order of arrival; the first n_active_ own cache.
  std::vector<std::unique_ptr<LiveRequest>> line_;
  int n_active_ = 0;
  std::optional<PrefixCache> prefixes_;  // empty: nothing is kept
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
