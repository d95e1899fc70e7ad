#include "engine/batch_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "backend/numerics.h"
#include "core/error.h"
#include "core/log.h"
#include "engine/model_fingerprint.h"

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
          .max_blocks = runner.pool().limits().max_blocks - runner.blocks_for_copies(),
          .block_tokens = runner.pool().layout().options.block_tokens};
}

LiveRequest::Limits request_limits(const ModelRunner& runner, const EngineConfig& config) {
  if (config.anchor_interval < 0) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("anchor_interval: {}, expected at least 0", config.anchor_interval));
  }
  const int block_tokens = runner.pool().layout().options.block_tokens;
  const int blocks = config.anchor_interval / block_tokens + (config.anchor_interval % block_tokens != 0 ? 1 : 0);
  return {.vocab = runner.vocab(),
          .max_context = runner.max_context(),
          .leaves_anchors = config.runner.prefix_bytes > 0,
          .anchor_interval = blocks * block_tokens};
}

// Tokens that two sequences begin with, when the last of the second must be computed anyway.
int shared_tokens(std::span<const TokenId> older, std::span<const TokenId> younger) {
  const size_t n = std::min(older.size(), younger.size() - 1);
  const auto end = older.begin() + static_cast<std::ptrdiff_t>(n);
  return static_cast<int>(std::mismatch(older.begin(), end, younger.begin()).first - older.begin());
}

std::unique_ptr<PrefixStore> open_store(ModelRunner& runner, const EngineConfig& config) {
  const PrefixKey fingerprint = model_fingerprint(runner.source(), runner.model_config(), runner.pool().layout(),
                                                  numerics_of(config.runner.backend));
  auto store = std::make_unique<PrefixStore>(
      runner.pool().layout(),
      PrefixStoreOptions{.dir = config.kv_dir,
                         .identity = {.fingerprint = fingerprint, .label = runner.model_config().name},
                         .budget_bytes = config.kv_budget});
  const PrefixStoreStats stats = store->stats();
  log_info(fmt::format("disk cache: {} anchors and {} blocks of this model in {}", stats.anchors, stats.blocks,
                       config.kv_dir));
  return store;
}

std::string describe(const PrefixMatch& match, size_t n_tokens) {
  std::string text = fmt::format("{} of {} tokens are cached", match.cached, n_tokens);
  if (match.matched == static_cast<int>(n_tokens)) {
    return text;
  }
  text += match.instead ? fmt::format("; at {} the nearest cached sequence goes on differently (with token {})",
                                      match.matched, *match.instead)
                        : fmt::format("; the nearest cached sequence ends at {}", match.matched);
  return text;
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
      request_limits_(request_limits(*runner_, config)),
      max_unfinished_(max_unfinished(config)) {
  if (config.runner.prefix_bytes > 0) {
    prefixes_.emplace(runner_->pool(), config.runner.prefix_bytes);
  }
  if (!config.kv_dir.empty()) {
    if (!prefixes_) {
      throw Error(ErrorCode::kBadRequest, "kv_dir: prefix_bytes is 0, expected room for what is read from it");
    }
    prefixes_->use_store(open_store(*runner_, config));
  }
  thread_ = std::thread([this] { run(); });
}

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
  auto live = std::make_unique<LiveRequest>(std::move(request), std::move(callbacks), state, request_limits_);
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
    leave_anchors(*request, /*last=*/true);
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
    stats_.prefix = prefixes_ ? prefixes_->stats() : PrefixCacheStats{};
  }
  for (const auto& request : over) {
    request->deliver_finish();
  }
}

void BatchEngine::step() {
  end_waits();
  StepSchedule schedule = scheduler_.next(entries(), n_active_);
  if (schedule.n_active != n_active_) {
    set_active(schedule.n_active);
    // What has just become active may begin behind a kept prefix, or wait.
    schedule = scheduler_.next(entries(), n_active_);
  }
  run_rows(schedule.rows);
}

std::vector<LineEntry> BatchEngine::entries() {
  std::vector<LineEntry> entries;
  entries.reserve(line_.size());
  for (const auto& request : line_) {
    entries.push_back(request->entry());
  }
  return entries;
}

void BatchEngine::set_active(int n_active) {
  const int n_before = std::exchange(n_active_, n_active);
  for (int i = n_active; i < n_before; ++i) {
    LiveRequest& request = *line_[static_cast<size_t>(i)];
    leave_anchors(request, /*last=*/true);
    request.deactivate();
  }
  for (int i = n_before; i < n_active; ++i) {
    LiveRequest& request = *line_[static_cast<size_t>(i)];
    try {
      request.activate(*runner_);
      begin(request, std::span(line_).first(static_cast<size_t>(i)));
    } catch (...) {
      request.fail(current_error());
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.preemptions += static_cast<uint64_t>(std::max(n_before - n_active, 0));
  stats_.running = n_active_;
}

// A prompt that begins like one which is being computed waits for it, unless less would be gained than a step costs.
void BatchEngine::begin(LiveRequest& request, std::span<const std::unique_ptr<LiveRequest>> older) {
  constexpr int kWorthWaiting = 32;
  if (!prefixes_) {
    return;
  }
  int shared = prefixes_->match(request.tokens()).cached + kWorthWaiting - 1;
  LiveRequest* best = nullptr;
  for (const auto& other : older) {
    const int n = other->ended() || request.scores_prompt() ? 0 : shared_tokens(other->tokens(), request.tokens());
    if (n > shared && n > other->cache().position()) {
      shared = n;
      best = other.get();
    }
  }
  if (best != nullptr) {
    request.wait_for(*best, shared);
  } else {
    resume(request);
  }
}

// A request that cannot begin fails alone.
void BatchEngine::resume(LiveRequest& request) {
  try {
    const PrefixMatch match = request.resume(*prefixes_);
    if (log_enabled(LogLevel::kInfo)) {
      log_info(fmt::format("request {}: {}", request.id(), describe(match, request.tokens().size())));
    }
  } catch (...) {
    request.fail(current_error());
  }
}

void BatchEngine::end_waits() {
  for (int i = 0; i < n_active_; ++i) {
    LiveRequest& request = *line_[static_cast<size_t>(i)];
    if (!request.waits()) {
      continue;
    }
    const auto older = std::find_if(line_.begin(), line_.begin() + i,
                                    [&](const auto& other) { return other->id() == request.waits()->id; });
    if (older == line_.begin() + i || (*older)->cache().position() >= request.waits()->position) {
      resume(request);
    }
  }
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
    make_room(inputs);
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
  leave_anchors(request, /*last=*/false);
  done.prompt_tokens += static_cast<uint64_t>(request.n_prompt_done() - n_prompt_before);
  done.generated_tokens += static_cast<uint64_t>(request.n_generated() - n_generated_before);
}

void BatchEngine::make_room(std::span<const StepInput> inputs) {
  if (!prefixes_) {
    return;
  }
  int n_blocks = 0;
  for (const StepInput& input : inputs) {
    n_blocks += input.sequence->plan(static_cast<int>(input.tokens.size())).blocks_acquired;
  }
  // Where that fails, the copies of shared blocks are no longer needed or the step says what is missing.
  static_cast<void>(prefixes_->make_room(n_blocks));
}

// An anchor less is no failure of a request.
void BatchEngine::leave_anchors(LiveRequest& request, bool last) noexcept {
  if (!prefixes_ || !request.active() || request.failed()) {
    return;
  }
  try {
    request.leave_anchors(*prefixes_, last);
  } catch (const std::exception& error) {
    log_warn(fmt::format("a prefix could not be kept: {}", error.what()));
  }
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
