#include "toy_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/check.h"
#include "sampling/sampler.h"
#include "weights/weight_source.h"

namespace fathom {
namespace {

constexpr int kHidden = 4;
constexpr int kStreams = 4;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

uint64_t hash_of(std::span<const TokenId> tokens) {
  uint64_t hash = 1;
  for (const TokenId token : tokens) {
    hash = mix(hash, static_cast<uint64_t>(token));
  }
  return hash;
}

// What the slot keeps of a sequence, as a model keeps its ring: it must fit the blocks. The one row of the one ring,
// and of the size of all rows.
using SlotState = uint32_t;
static_assert(sizeof(SlotState) == sizeof(TokenId));

SlotState state_after(std::span<const TokenId> tokens) {
  return static_cast<SlotState>(mix(hash_of(tokens), tokens.size()) >> 32);
}

class ToySource final : public WeightSource {
 public:
  ToySource() {
    add("token_embd.weight", kToyVocab, kHidden);
    add("output_hc_fn.weight", kStreams, kStreams * kHidden);
    add("output_hc_base.weight", 1, kStreams);
    add("output_hc_scale.weight", 1, 1);
    add("output_norm.weight", 1, kHidden);
    add("output.weight", kToyVocab, kHidden);
  }
  [[nodiscard]] const std::string& path() const noexcept override { return path_; }

 private:
  void add(const char* name, int out, int in) {
    Weight weight;
    weight.out_dim = out;
    weight.in_dim = in;
    FATHOM_CHECK(add_tensor(name, weight, {WeightSlice{}}), "names differ");
  }

  std::string path_ = "toy";
};

CacheLayout toy_layout(int context_length) {
  CacheLayout layout;
  layout.options.block_tokens = kToyBlock;
  layout.options.rewind_rows = 0;
  layout.context_length = context_length;
  layout.window = 2;
  layout.ring_rows = 1;
  layout.kv_row_bytes = sizeof(SlotState);
  // One layer, whose entries are single tokens.
  LayerCache layer;
  layer.ratio = 1;
  layer.state = {.ratio = 1, .width = 0, .roles = 1, .capacity = 1, .offset = 0};
  layer.rows_per_block = kToyBlock;
  layout.layers.push_back(layer);
  layout.slot_bytes = sizeof(SlotState);
  layout.block_bytes = kToyBlock * sizeof(TokenId);
  return layout;
}

}  // namespace

std::vector<float> toy_logits(std::span<const TokenId> tokens) {
  const uint64_t hash = hash_of(tokens);
  const bool poisoned = std::find(tokens.begin(), tokens.end(), kToyPoison) != tokens.end();
  std::vector<float> logits(kToyVocab);
  for (size_t token = 0; token < kToyVocab; ++token) {
    logits[token] = static_cast<float>(mix(hash, token) >> 40) * 0x1p-24F * 6.0F - 3.0F;
  }
  logits[kToyPoison] = poisoned ? std::numeric_limits<float>::quiet_NaN() : -50.0F;
  return logits;
}

std::vector<TokenId> toy_continuation(std::vector<TokenId> tokens, const SamplingParams& params, int n) {
  Sampler sampler(params, kToyVocab, tokens);
  SamplingBuffers buffers;
  std::vector<TokenId> generated;
  for (int i = 0; i < n; ++i) {
    const TokenId token = sampler.sample(toy_logits(tokens), static_cast<int>(tokens.size()), buffers);
    sampler.accept(token);
    tokens.push_back(token);
    generated.push_back(token);
  }
  return generated;
}

std::vector<TokenId> toy_prompt(int n, int salt) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(static_cast<TokenId>(mix(static_cast<uint64_t>(salt), static_cast<uint64_t>(i)) % kToyPoison));
  }
  return tokens;
}

ToyOps::ToyOps(StepHook on_step, int context_length)
    : FakeOps(toy_layout(context_length)), on_step_(std::move(on_step)) {}

void ToyOps::begin_step(const StepBatch& batch) {
  batch_ = batch;
  if (on_step_) {
    on_step_(batch);
  }
  for (const SequenceSlice& slice : batch.sequences) {
    store(slice);
  }
}

void ToyOps::store(const SequenceSlice& slice) {
  SlotState state{};
  std::memcpy(&state, slot(slice.slot).data(), sizeof state);
  FATHOM_CHECK(slice.start == 0 || state == state_after(history(slice, slice.start)),
               "the slot belongs to another sequence or position");
  for (int i = 0; i < slice.n_rows; ++i) {
    const auto position = static_cast<size_t>(slice.start + i);
    const TokenId token = batch_.tokens[static_cast<size_t>(slice.first_row + i)];
    std::memcpy(block(slice.blocks[position / kToyBlock]).subspan(position % kToyBlock * sizeof token).data(), &token,
                sizeof token);
  }
  state = state_after(history(slice, slice.start + slice.n_rows));
  std::memcpy(slot(slice.slot).data(), &state, sizeof state);
}

std::vector<TokenId> ToyOps::history(const SequenceSlice& slice, int n) {
  std::vector<TokenId> tokens(static_cast<size_t>(n));
  for (size_t position = 0; position < tokens.size(); ++position) {
    std::memcpy(&tokens[position],
                block(slice.blocks[position / kToyBlock]).subspan(position % kToyBlock * sizeof(TokenId)).data(),
                sizeof(TokenId));
  }
  return tokens;
}

void ToyOps::end_step(DeviceMat<const float> /*logits*/, HostMat<float> out) {
  for (int i = 0; i < batch_.n_logits(); ++i) {
    const int row = batch_.logit_rows[static_cast<size_t>(i)];
    const auto owner = std::find_if(batch_.sequences.begin(), batch_.sequences.end(), [&](const SequenceSlice& s) {
      return row >= s.first_row && row < s.first_row + s.n_rows;
    });
    const std::vector<float> logits = toy_logits(history(*owner, owner->start + row - owner->first_row + 1));
    std::copy(logits.begin(), logits.end(), out.row(i).begin());
  }
}

std::unique_ptr<ModelRunner> toy_runner(const RunnerConfig& config, ToyOps::StepHook on_step) {
  ModelConfig model;
  model.name = "toy";
  model.hidden = kHidden;
  model.hc = kStreams;
  model.vocab = kToyVocab;
  model.context_length = 1000;
  return std::make_unique<ModelRunner>(std::make_unique<ToySource>(), model,
                                       std::make_unique<ToyOps>(std::move(on_step), model.context_length), config);
}

std::unique_ptr<Engine> toy_engine(const EngineConfig& config, ToyOps::StepHook on_step) {
  return Engine::start(toy_runner(config.runner, std::move(on_step)), config);
}

EngineConfig toy_config() {
  EngineConfig config;
  config.runner.backend.max_rows = 32;
  config.runner.max_context = 400;
  config.runner.max_sequences = 4;
  config.max_mixed_rows = 8;
  return config;
}

}  // namespace fathom
