#include "engine/batch_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace fathom {
namespace {

// The exception being handled, as the error that callers are told.
Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "the engine ran out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::kDevice, fmt::format("unexpected failure: {}", error.what())};
  } catch (...) {
    return {ErrorCode::kDevice, "unexpected failure"};
  }
}

SchedulerLimits scheduler_limits(const ModelRunner& runner, const EngineConfig& config) {
  return {.max_rows = runner.max_rows(),
          .max_mixed_rows = config.max_mixed_rows,
          .max_logits = runner.max_logits(),
          .max_active = config.runner.max_sequences,
          .max_blocks = runner.pool().limits().max_blocks,
          .block_tokens = runner.pool().layout().options.block_tokens};
}

size_t max_unfinished(const EngineConfig& config) {
  if (config.max_queue < 0) {
    throw Error(ErrorCode::kBadRequest, fmt::format("max_queue: {}, expected at least 0", config.max_queue));
  }
  return static_cast<size_t>(config.runner.max_sequences) + static_cast<size_t>(config.max_queue);
}

}  // namespace

BatchEngine::BatchEngine(std::unique_ptr<ModelRunner> runner, const EngineConfig& config)
    : runner_(std::move(runner)),
      scheduler_(scheduler_limits(*runner_, config)),
      vocab_(runner_->vocab()),
      max_context_(runner_->max_context()),
      max_unfinished_(max_unfinished(config)),
      thread_([this] { run(); }) {}

BatchEngine::~BatchEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::optional<RequestHandle> BatchEngine::submit(GenerationRequest request, GenerationCallbacks callbacks) {
  auto state = std::make_shared<RequestState>(thread_.get_id());
  auto live = std::make_unique<LiveRequest>(std::move(request), std::move(callbacks), state, vocab_, max_context_);
  {
    const std::lock_guard lock(mutex_);
    if (n_unfinished_ >= max_unfinished_) {
      return std::nullopt;
    }
    inbox_.push_back(std::move(live));
    ++n_unfinished_;
  }
  wake_.notify_one();
  return RequestHandle(std::move(state));
}

EngineStats BatchEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting = static_cast<int>(n_unfinished_) - stats.running;
  return stats;
}

void BatchEngine::run() {
  while (collect()) {
    sweep();
    if (line_.empty()) {
      continue;
    }
    try {
      step();
    } catch (...) {
      fail_all(current_error());
    }
    sweep();
  }
  for (const auto& request : line_) {
    request->end(FinishReason::kCancelled);
  }
  sweep();
}

// Takes new requests into the line, waiting for one when there is nothing else to do. False: the engine shuts down.
bool BatchEngine::collect() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stopping_ || !inbox_.empty() || !line_.empty(); });
  std::move(inbox_.begin(), inbox_.end(), std::back_inserter(line_));
  inbox_.clear();
  return !stopping_;
}

// Removes the requests that are over. Their cache is free and the counts are right before their callers hear of it.
void BatchEngine::sweep() {
  for (const auto& request : line_) {
    request->check_caller();
  }
  const auto lives = [](const std::unique_ptr<LiveRequest>& request) { return !request->ended(); };
  n_active_ = static_cast<int>(std::count_if(line_.begin(), line_.begin() + n_active_, lives));
  const auto first_over = std::stable_partition(line_.begin(), line_.end(), lives);
  std::vector<std::unique_ptr<LiveRequest>> over(std::make_move_iterator(first_over),
                                                 std::make_move_iterator(line_.end()));
  line_.erase(first_over, line_.end());
  for (const auto& request : over) {
    request->deactivate();
  }
  {
    const std::lock_guard lock(mutex_);
    n_unfinished_ -= over.size();
    stats_.requests_finished += over.size();
    for (const auto& request : over) {
      stats_.requests_failed += static_cast<uint64_t>(request->failed());
    }
    const CachePool& pool = runner_->pool();
    stats_.running = n_active_;
    stats_.cache_blocks_used = pool.blocks_in_use();
    stats_.cache_blocks_total = pool.limits().max_blocks;
    stats_.cache_bytes_used = pool.bytes_in_use();
  }
  for (const auto& request : over) {
    request->deliver_finish();
  }
}

void BatchEngine::step() {
  std::vector<LineEntry> entries;
  entries.reserve(line_.size());
  for (const auto& request : line_) {
    entries.push_back(request->entry());
  }
  const StepSchedule schedule = scheduler_.next(entries, n_active_);
  set_active(schedule.n_active);
  run_rows(schedule.rows);
}

void BatchEngine::set_active(int n_active) {
  const int n_before = std::exchange(n_active_, n_active);
  for (int i = n_active; i < n_before; ++i) {
    line_[static_cast<size_t>(i)]->deactivate();
  }
  for (int i = n_before; i < n_active; ++i) {
    LiveRequest& request = *line_[static_cast<size_t>(i)];
    try {
      request.activate(*runner_);
    } catch (...) {
      request.fail(current_error());
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.preemptions += static_cast<uint64_t>(std::max(n_before - n_active, 0));
  stats_.running = n_active_;
}

// One step of the model, then the events of its requests. A step that fails fails its own requests, and a request that
// fails fails alone.
void BatchEngine::run_rows(std::span<const int> rows) {
  std::vector<LiveRequest*> members;
  std::vector<StepInput> inputs;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] > 0 && !line_[i]->ended()) {
      members.push_back(line_[i].get());
      inputs.push_back(line_[i]->step_input(rows[i]));
    }
  }
  if (inputs.empty()) {
    return;
  }

  EngineStats done;
  const auto begin = std::chrono::steady_clock::now();
  try {
    const HostMat<const float> logits = runner_->run(inputs);
    done.last_step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    int first_logit = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      advance(*members[i], logits.slice_rows(first_logit, inputs[i].n_logits), done);
      first_logit += inputs[i].n_logits;
    }
  } catch (...) {
    const Error error = current_error();
    log_error(fmt::format("a step of {} sequences failed: {}", members.size(), error.what()));
    for (LiveRequest* member : members) {
      member->fail(error);
    }
    done.steps_failed = 1;
  }
  count_step(done);
}

void BatchEngine::advance(LiveRequest& request, HostMat<const float> logits, EngineStats& done) {
  const int n_prompt_before = request.n_prompt_done();
  const int n_generated_before = request.n_generated();
  try {
    request.advance(logits, buffers_);
  } catch (...) {
    request.fail(current_error());
  }
  done.prompt_tokens += static_cast<uint64_t>(request.n_prompt_done() - n_prompt_before);
  done.generated_tokens += static_cast<uint64_t>(request.n_generated() - n_generated_before);
}

void BatchEngine::count_step(const EngineStats& done) {
  const std::lock_guard lock(mutex_);
  ++stats_.steps;
  stats_.steps_failed += done.steps_failed;
  stats_.prompt_tokens += done.prompt_tokens;
  stats_.generated_tokens += done.generated_tokens;
  stats_.step_seconds += done.last_step_seconds;
  stats_.last_step_seconds = done.last_step_seconds;
}

void BatchEngine::fail_all(const Error& error) {
  for (const auto& request : line_) {
    request->fail(error);
  }
}

}  // namespace fathom
