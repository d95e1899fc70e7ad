// The plain fields of a config: where each spelling keeps them and what it may be. Private to model/: the rest (layers,
// vocabulary, YaRN, clamps, fixed choices) is read field by field in config_gguf.cpp and config_json.cpp.
#pragma once

#include <array>
#include <limits>

#include "core/model_config.h"

namespace fathom {

inline constexpr int kMaxLayers = 512;
inline constexpr int kMaxDim = 1 << 20;
// Rows that every sequence keeps, and entries that every row of a step lists: no tensor has their shape, so that only
// these limits keep a damaged file from asking for the whole memory.
inline constexpr int kMaxWindow = 1 << 16;
inline constexpr int kMaxSelected = 1 << 16;
inline constexpr int kMaxVocab = 1 << 24;
inline constexpr int kMaxContext = std::numeric_limits<int>::max();
inline constexpr int kMaxExperts = 1 << 16;
inline constexpr int kMaxSinkhorn = 1000;
inline constexpr int kMaxStreams = 16;

// In JSON: the name in config.json, then the one in the official inference code's config (nullptr: the same).
using JsonKeys = std::array<const char*, 2>;

struct IntField {
  int ModelConfig::*member;
  const char* gguf_key;  // behind "deepseek4."
  JsonKeys json_keys;
  int min;
  int max;
};

inline constexpr auto kIntFields = std::to_array<IntField>({
    {&ModelConfig::hidden, "embedding_length", {"hidden_size", "dim"}, 1, kMaxDim},
    {&ModelConfig::n_heads, "attention.head_count", {"num_attention_heads", "n_heads"}, 1, kMaxDim},
    {&ModelConfig::head_dim, "attention.key_length", {"head_dim"}, 2, kMaxDim},
    {&ModelConfig::q_lora_rank, "attention.q_lora_rank", {"q_lora_rank"}, 1, kMaxDim},
    {&ModelConfig::o_lora_rank, "attention.output_lora_rank", {"o_lora_rank"}, 1, kMaxDim},
    {&ModelConfig::o_groups, "attention.output_group_count", {"o_groups"}, 1, kMaxDim},
    {&ModelConfig::window, "attention.sliding_window", {"sliding_window", "window_size"}, 1, kMaxWindow},
    {&ModelConfig::index_heads, "attention.indexer.head_count", {"index_n_heads"}, 1, kMaxDim},
    {&ModelConfig::index_dim, "attention.indexer.key_length", {"index_head_dim"}, 2, kMaxDim},
    {&ModelConfig::index_topk, "attention.indexer.top_k", {"index_topk"}, 1, kMaxSelected},
    {&ModelConfig::n_experts, "expert_count", {"n_routed_experts"}, 1, kMaxExperts},
    {&ModelConfig::n_experts_used, "expert_used_count", {"num_experts_per_tok", "n_activated_experts"}, 1, kMaxExperts},
    {&ModelConfig::expert_ffn, "expert_feed_forward_length", {"moe_intermediate_size", "moe_inter_dim"}, 1, kMaxDim},
    {&ModelConfig::n_shared_experts, "expert_shared_count", {"n_shared_experts"}, 1, kMaxExperts},
    {&ModelConfig::hc, "hyper_connection.count", {"hc_mult"}, 1, kMaxStreams},
    {&ModelConfig::sinkhorn_iterations, "hyper_connection.sinkhorn_iterations", {"hc_sinkhorn_iters"}, 1, kMaxSinkhorn},
});

// All are finite and greater than 0.
struct FloatField {
  float ModelConfig::*member;
  const char* gguf_key;
  JsonKeys json_keys;
  bool in_every_gguf;
  bool in_every_json;  // else the value that ModelConfig starts with, which is also the official code's
};

inline constexpr auto kFloatFields = std::to_array<FloatField>({
    {&ModelConfig::rope_theta, "rope.freq_base", {"rope_theta"}, false, true},
    {&ModelConfig::compress_rope_theta, "attention.compress_rope_freq_base", {"compress_rope_theta"}, true, true},
    {&ModelConfig::routed_scale, "expert_weights_scale", {"routed_scaling_factor", "route_scale"}, true, true},
    {&ModelConfig::hc_eps, "hyper_connection.epsilon", {"hc_eps"}, true, false},
    {&ModelConfig::rms_eps, "attention.layer_norm_rms_epsilon", {"rms_norm_eps", "norm_eps"}, true, false},
});

}  // namespace fathom
