// The attention ops of a layer on random inputs that depend on nothing but the sequence and the position.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/ops.h"
#include "support/owned_weight.h"

namespace fathom::test {

inline constexpr int kMaxRows = 330;
inline constexpr int kLayers = 3;  // of ratio 0, 4 and 128
inline constexpr double kEpsilon = 0x1p-24;

struct Shape {
  const char* name;
  int heads, head_dim, rope_dim, window, index_heads, index_dim, topk;
};
inline constexpr Shape kShapes[] = {
    {"odd", 3, 74, 14, 37, 5, 32, 6},        // no dim fills a vector
    {"short", 2, 20, 4, 8, 17, 16, 3},       // index rows too short for codes
    {"tiled", 16, 192, 64, 40, 16, 64, 70},  // heads fill a tile; more entries than a block of keys are selected
    {"real", 2, 512, 64, 128, 64, 128, 40}   // real widths, few heads
};

struct Storage {
  const char* name;
  bool activation_sim;
  KvType kv_type;
};
inline constexpr Storage kStorages[] = {
    {"plain", false, KvType::kF32}, {"simulated", true, KvType::kF32}, {"packed", true, KvType::kPacked}};

inline ModelConfig make_config(const Shape& s) {
  ModelConfig c;
  c.n_layers = kLayers;
  c.hidden = 100;
  c.vocab = 8;
  c.context_length = 1 << 20;
  c.n_heads = s.heads;
  c.head_dim = s.head_dim;
  c.rope_dim = s.rope_dim;
  c.q_lora_rank = 32;
  c.o_lora_rank = 8;
  c.o_groups = 1;
  c.window = s.window;
  c.compress_ratios = {0, 4, 128};
  c.index_heads = s.index_heads;
  c.index_dim = s.index_dim;
  c.index_topk = s.topk;
  c.yarn = {.factor = 16.0F, .original_context = 65536};
  c.n_experts = 19;
  c.n_experts_used = 4;
  c.expert_ffn = 32;
  c.routed_scale = 1.5F;
  c.swiglu_limit = {10, 10, 10};
  c.shared_swiglu_limit = {10, 10, 10};
  return c;
}

inline std::vector<float> random_values(size_t n, unsigned seed, float mean = 0.0F, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> v(n);
  std::generate(v.begin(), v.end(), [&] { return normal(random); });
  return v;
}

// Weights of one layer's ops, the same for every backend.
struct AttentionWeights {
  explicit AttentionWeights(const ModelConfig& c)
      : kv_norm(vector("kv_norm", c.head_dim, 1, 1.0F)),
        sinks(vector("sinks", c.n_heads, 2, 0.0F)),
        norm4(vector("norm4", c.head_dim, 3, 1.0F)),
        ape4(4, 2 * c.head_dim, 4),
        index_norm(vector("index_norm", c.index_dim, 5, 1.0F)),
        index_ape(4, 2 * c.index_dim, 6),
        norm128(vector("norm128", c.head_dim, 7, 1.0F)),
        ape128(128, c.head_dim, 8) {}

  static OwnedWeight vector(const char* name, int n, unsigned seed, float mean) {
    return {name, 1, n, random_values(static_cast<size_t>(n), seed, mean, 0.3F)};
  }
  struct Table {
    Table(int out, int in, unsigned seed)
        : weight("ape", out, in, random_values(static_cast<size_t>(out) * static_cast<size_t>(in), seed)) {}
    OwnedWeight weight;
  };

  OwnedWeight kv_norm, sinks, norm4;
  Table ape4;
  OwnedWeight index_norm;
  Table index_ape;
  OwnedWeight norm128;
  Table ape128;
};

// Rows of a step: how many of which sequence.
struct Part {
  int sequence;
  int n_rows;
};
using Step = std::vector<Part>;

// One backend with three sequences.
class AttentionBench {
 public:
  AttentionBench(std::unique_ptr<Ops> backend, const ModelConfig& config, const AttentionWeights& w, int n_blocks)
      : ops(std::move(backend)), config_(config) {
    const auto up = [&](const OwnedWeight& x) { return ops->upload(x.weight(), WeightRole::kVector); };
    kv_norm_ = up(w.kv_norm);
    sinks_ = up(w.sinks);
    comp_[1] = {.kv = {}, .gate = {}, .ape = up(w.ape4.weight), .norm = up(w.norm4)};
    comp_[2] = {.kv = {}, .gate = {}, .ape = up(w.ape128.weight), .norm = up(w.norm128)};
    index_ = {.kv = {}, .gate = {}, .ape = up(w.index_ape.weight), .norm = up(w.index_norm)};
    q = ops->make_f32(kMaxRows, config.n_heads * config.head_dim);
    kv = ops->make_f32(kMaxRows, config.head_dim);
    comp_kv = ops->make_f32(kMaxRows, 2 * config.head_dim);
    comp_gate = ops->make_f32(kMaxRows, 2 * config.head_dim);
    index_kv = ops->make_f32(kMaxRows, 2 * config.index_dim);
    index_gate = ops->make_f32(kMaxRows, 2 * config.index_dim);
    index_q = ops->make_f32(kMaxRows, config.index_heads * config.index_dim);
    index_weights = ops->make_f32(kMaxRows, config.index_heads);
    context = ops->make_f32(kMaxRows, config.n_heads * config.head_dim);
    selected = ops->make_i32(kMaxRows, config.index_topk);
    ops->reserve_cache(3, 3 * n_blocks);
    for (int s = 0; s < 3; ++s) {
      for (int b = 0; b < n_blocks; ++b) {
        tables[s].push_back(s * n_blocks + b);
      }
    }
  }

  // Sets the rows of the step up; positions continue where the sequences are.
  void begin(const Step& step) {
    slices_.clear();
    int row = 0;
    for (const Part& part : step) {
      slices_.push_back({.slot = part.sequence,
                         .blocks = tables[part.sequence],
                         .start = length[part.sequence],
                         .first_row = row,
                         .n_rows = part.n_rows});
      row += part.n_rows;
    }
    tokens_.assign(static_cast<size_t>(row), 0);
    rows = row;
    ops->begin_step({.tokens = tokens_, .sequences = slices_, .logit_rows = {}});
  }
  void end() {
    for (const SequenceSlice& slice : slices_) {
      length[slice.slot] += slice.n_rows;
    }
  }
  [[nodiscard]] const std::vector<SequenceSlice>& slices() const { return slices_; }

  // Inputs depend on nothing but the sequence, the position and the layer.
  void fill(int layer) {
    for (const SequenceSlice& slice : slices_) {
      for (int i = 0; i < slice.n_rows; ++i) {
        const auto seed = static_cast<unsigned>(((slice.slot * 100003 + slice.start + i) * kLayers + layer) * 8);
        const int r = slice.first_row + i;
        unsigned kind = 0;
        for (const DeviceMat<float>& m : {q, kv, comp_kv, comp_gate, index_kv, index_gate, index_q, index_weights}) {
          const std::vector<float> values = random_values(static_cast<size_t>(m.cols()), seed + kind++);
          std::copy(values.begin(), values.end(), m.device_ptr() + r * m.ld());
        }
      }
    }
  }

  [[nodiscard]] DeviceMat<float> cut(DeviceMat<float> m, int cols = 0) const {
    const DeviceMat<float> all = m.slice_rows(0, rows);
    return cols == 0 ? all : all.slice_cols(0, cols);
  }
  void norm_rope(int layer) { ops->norm_rope(layer, kv_norm_, cut(q), cut(kv)); }
  void compress(int layer) {
    const int cols = compressor_roles(config_.ratio(layer)) * config_.head_dim;
    ops->compress(layer, comp_[layer], cut(comp_kv, cols), cut(comp_gate, cols));
  }
  void compress_index(int layer) { ops->compress_index(layer, index_, cut(index_kv), cut(index_gate)); }
  void select(int layer) { ops->select_entries(layer, cut(index_q), cut(index_weights), selected.slice_rows(0, rows)); }
  void attend(int layer) {
    const bool indexed = config_.ratio(layer) == 4;
    ops->attend(layer, sinks_, cut(q), cut(kv), indexed ? selected.slice_rows(0, rows) : DeviceMat<int32_t>{},
                cut(context));
  }
  void run_layer(int layer) {
    fill(layer);
    norm_rope(layer);
    if (config_.ratio(layer) == 4) {
      compress_index(layer);
      select(layer);
    }
    if (config_.ratio(layer) > 0) {
      compress(layer);
    }
    attend(layer);
  }

  [[nodiscard]] std::vector<float> read(DeviceMat<const float> m) const {
    std::vector<float> out(static_cast<size_t>(rows) * static_cast<size_t>(m.cols()));
    ops->read_f32(m.slice_rows(0, rows), {out.data(), rows, m.cols()});
    return out;
  }
  [[nodiscard]] std::vector<int32_t> read(DeviceMat<const int32_t> m) const {
    std::vector<int32_t> out(static_cast<size_t>(rows) * static_cast<size_t>(m.cols()));
    ops->read_i32(m.slice_rows(0, rows), {out.data(), rows, m.cols()});
    return out;
  }
  [[nodiscard]] std::vector<std::byte> slot(int s) const {
    std::vector<std::byte> bytes(ops->cache_layout().slot_bytes);
    ops->read_slot(s, bytes);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> block(int b) const {
    std::vector<std::byte> bytes(ops->cache_layout().block_bytes);
    ops->read_block(b, bytes);
    return bytes;
  }

  std::unique_ptr<Ops> ops;
  int length[3] = {};
  int rows = 0;
  DeviceMat<float> q, kv, comp_kv, comp_gate, index_kv, index_gate, index_q, index_weights, context;
  DeviceMat<int32_t> selected;
  std::vector<int32_t> tables[3];

 private:
  ModelConfig config_;
  Weight kv_norm_, sinks_;
  CompressorWeights comp_[kLayers], index_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
};

inline BackendOptions backend_options(const Storage& storage, const std::string& isa, int threads) {
  return {.kind = BackendKind::kCpu,
          .threads = threads,
          .isa = isa,
          .max_rows = kMaxRows,
          .cache = {.activation_sim = storage.activation_sim, .kv_type = storage.kv_type, .block_tokens = 128}};
}

}  // namespace fathom::test
