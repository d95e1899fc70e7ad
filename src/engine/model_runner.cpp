#include "engine/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "cache/step_transaction.h"
#include "core/check.h"
#include "core/error.h"
#include "model/config_reader.h"

namespace fathom {
namespace {

void expect_between(const char* field, int value, int low, int high) {
  if (value < low || value > high) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: {}, expected {} to {}", field, value, low, high));
  }
}

int clamp_to_int(uint64_t n) {
  return static_cast<int>(std::min<uint64_t>(n, static_cast<uint64_t>(std::numeric_limits<int>::max())));
}

// Where sequences go on from the same anchor, a step may for a moment hold both a block and its copy for each of them.
int blocks_for_copies(const RunnerConfig& config) { return config.prefix_bytes > 0 ? config.max_sequences : 0; }

// One sequence of max_context positions always fits: a request that the context admits can run alone.
CacheLimits cache_limits(const CacheLayout& layout, const RunnerConfig& config) {
  CacheLimits limits;
  limits.max_slots = config.max_sequences + config.max_snapshots;
  limits.max_context = config.max_context != 0 ? config.max_context : layout.context_length;
  const auto sequences = static_cast<uint64_t>(config.max_sequences);
  // Without compressed layers blocks hold nothing.
  const size_t block_bytes = std::max<size_t>(layout.block_bytes, 1);
  const uint64_t useful = sequences * static_cast<uint64_t>(layout.blocks_for(limits.max_context)) +
                          (layout.block_bytes > 0 ? config.prefix_bytes / block_bytes : 0);
  const auto copies = static_cast<uint64_t>(blocks_for_copies(config));
  limits.max_blocks = clamp_to_int(useful + copies);
  if (config.cache_bytes == 0) {
    return limits;
  }

  limits.max_blocks = clamp_to_int(std::min<uint64_t>(useful, config.cache_bytes / block_bytes));
  const uint64_t room = static_cast<uint64_t>(limits.max_blocks) * static_cast<uint64_t>(layout.options.block_tokens);
  if (config.max_context == 0 && room > 0) {
    limits.max_context = std::min(limits.max_context, clamp_to_int(room));
  }
  if (room < static_cast<uint64_t>(limits.max_context)) {
    const auto needed = static_cast<uint64_t>(config.max_context != 0 ? layout.blocks_for(config.max_context) : 1);
    throw Error(ErrorCode::kBadRequest,
                fmt::format("cache_bytes: {} hold {} positions, expected at least {} bytes for "
                            "one sequence of {}",
                            config.cache_bytes, room, needed * layout.block_bytes, std::max(config.max_context, 1)));
  }
  limits.max_blocks = clamp_to_int(static_cast<uint64_t>(limits.max_blocks) + copies);
  return limits;
}

const RunnerConfig& checked(const RunnerConfig& config) {
  constexpr int kMaxRows = 1 << 20;
  expect_between("max_rows", config.backend.max_rows, 1, kMaxRows);
  expect_between("max_logits", config.max_logits, 0, config.backend.max_rows);
  expect_between("max_sequences", config.max_sequences, 1, kMaxRows);
  expect_between("max_snapshots", config.max_snapshots, 0, kMaxRows);
  expect_between("max_context", config.max_context, 0, std::numeric_limits<int>::max());
  return config;
}

}  // namespace

std::unique_ptr<ModelRunner> ModelRunner::open(const RunnerConfig& config) {
  std::unique_ptr<WeightSource> source = WeightSource::open(config.model_path);
  const ModelConfig model = read_config(*source);
  std::unique_ptr<Ops> ops = make_ops(model, checked(config).backend);
  return std::make_unique<ModelRunner>(std::move(source), model, std::move(ops), config);
}

ModelRunner::ModelRunner(std::unique_ptr<WeightSource> source, const ModelConfig& model, std::unique_ptr<Ops> ops,
                         const RunnerConfig& config)
    : source_(std::move(source)),
      ops_(std::move(ops)),
      model_(bind_weights(*source_, model)),
      pool_(*ops_, cache_limits(ops_->cache_layout(), checked(config))),
      blocks_for_copies_(fathom::blocks_for_copies(config)),
      max_rows_(config.backend.max_rows),
      max_logits_(config.max_logits != 0 ? config.max_logits : max_rows_) {
  upload_weights(model_, *ops_, *source_);
  scratch_ = Scratch::make(*ops_, model_.config, max_rows_, max_logits_);
}

HostMat<const float> ModelRunner::run(std::span<const StepInput> inputs) {
  gather(inputs);
  StepTransaction step(pool_);
  for (const StepInput& input : inputs) {
    step.add(*input.sequence, static_cast<int>(input.tokens.size()));
  }
  step.begin();
  const StepBatch batch{.tokens = tokens_, .sequences = step.slices(), .logit_rows = logit_rows_};
  logits_.resize(std::max(logits_.size(), logit_rows_.size() * static_cast<size_t>(vocab())));
  const HostMat<float> logits(logits_.data(), batch.n_logits(), vocab());
  forward(*ops_, model_, batch, scratch_, logits);
  step.commit();
  return logits;
}

void ModelRunner::gather(std::span<const StepInput> inputs) {
  tokens_.clear();
  logit_rows_.clear();
  for (const StepInput& input : inputs) {
    const int n_rows = static_cast<int>(input.tokens.size());
    FATHOM_CHECK(input.n_logits >= 0 && input.n_logits <= n_rows, "logits of rows that are not in the step");
    for (const TokenId token : input.tokens) {
      if (token < 0 || token >= vocab()) {
        throw Error(ErrorCode::kBadRequest, fmt::format("token {}, expected an id from 0 to {}", token, vocab() - 1));
      }
      tokens_.push_back(token);
    }
    const int end = static_cast<int>(tokens_.size());
    for (int row = end - input.n_logits; row < end; ++row) {
      logit_rows_.push_back(row);
    }
  }
  expect_between("rows of a step", static_cast<int>(tokens_.size()), 0, max_rows_);
  expect_between("logits of a step", static_cast<int>(logit_rows_.size()), 0, max_logits_);
}

void ModelRunner::feed(SequenceCache& sequence, std::span<const TokenId> tokens, int chunk,
                       const std::function<void(int position, HostMat<const float> logits)>& on_logits) {
  expect_between("chunk", chunk, 1, std::numeric_limits<int>::max());
  const auto step_rows = static_cast<size_t>(std::min(chunk, on_logits ? std::min(max_rows_, max_logits_) : max_rows_));
  while (!tokens.empty()) {
    const std::span<const TokenId> part = tokens.first(std::min(step_rows, tokens.size()));
    const int position = sequence.position();
    const StepInput input{
        .sequence = &sequence, .tokens = part, .n_logits = on_logits ? static_cast<int>(part.size()) : 0};
    const HostMat<const float> logits = run({&input, 1});
    if (on_logits) {
      on_logits(position, logits);
    }
    tokens = tokens.subspan(part.size());
  }
}

}  // namespace fathom
