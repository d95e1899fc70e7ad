// The geometry and constants of one DeepSeek-V4 model: plain data, read and checked once (model/config_reader.h).
// Symbols in brackets are those of the technical report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fathom {

struct YarnParams {
  float factor = 1.0F;
  int original_context = 0;
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;

  friend bool operator==(const YarnParams&, const YarnParams&) = default;
};

struct ModelConfig {
  std::string name;  // general.name, or the directory's; a label only

  int n_layers = 0;
  int hidden = 0;  // [d]
  int vocab = 0;
  int context_length = 0;  // positions the model was trained for

  int n_heads = 0;   // [H]
  int head_dim = 0;  // [D]; keys and values are the same vector
  int rope_dim = 0;  // [R], the last dims of a head
  int q_lora_rank = 0;
  int o_lora_rank = 0;  // per group
  int o_groups = 0;
  int window = 0;                    // raw rows a query sees, itself included
  std::vector<int> compress_ratios;  // one per layer: 0, 4 or 128

  int index_heads = 0;
  int index_dim = 0;
  int index_topk = 0;

  float rope_theta = 10000.0F;            // layers with ratio 0
  float compress_rope_theta = 160000.0F;  // every rotation in a layer with ratio > 0, with YaRN
  YarnParams yarn;

  int n_experts = 0;
  int n_experts_used = 0;
  int expert_ffn = 0;
  int n_shared_experts = 1;
  int n_hash_layers = 0;
  float routed_scale = 1.0F;
  std::vector<float> swiglu_limit;         // one per layer; 0: no clamp
  std::vector<float> shared_swiglu_limit;  // one per layer

  int hc = 4;  // residual streams
  int sinkhorn_iterations = 20;
  float hc_eps = 1e-6F;
  float rms_eps = 1e-6F;

  [[nodiscard]] int ratio(int layer) const { return compress_ratios[static_cast<size_t>(layer)]; }
  [[nodiscard]] int nope_dim() const { return head_dim - rope_dim; }
  [[nodiscard]] int shared_ffn() const { return n_shared_experts * expert_ffn; }
  // Mix rows: pre, post, and the hc x hc combination.
  [[nodiscard]] int hc_mix() const { return (2 + hc) * hc; }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Channels of a compressor's projections: twice the row for ratio 4 (two overlapping roles), once for 128.
[[nodiscard]] constexpr int compressor_roles(int ratio) { return ratio == 4 ? 2 : 1; }

}  // namespace fathom
