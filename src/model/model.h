// The model: every weight bound once by name and checked against the config's shapes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backend/layer_weights.h"
#include "backend/ops.h"
#include "core/model_config.h"
#include "weights/tensor_spec.h"

namespace fathom {

class WeightSource;

struct IndexerWeights {
  Weight q_b;   // [index_heads * index_dim, q_lora_rank]
  Weight proj;  // [index_heads, d]
  CompressorWeights comp;
};

struct AttentionWeights {
  Weight norm;                            // [d]
  Weight q_a;                             // [q_lora_rank, d]
  Weight q_a_norm;                        // [q_lora_rank]
  Weight q_b;                             // [H * D, q_lora_rank]
  Weight kv;                              // [D, d]
  Weight kv_norm;                         // [D]
  Weight sinks;                           // [H]
  Weight out_a;                           // [o_groups * o_lora_rank, H * D / o_groups]
  Weight out_b;                           // [d, o_groups * o_lora_rank]
  std::optional<CompressorWeights> comp;  // ratio > 0
  std::optional<IndexerWeights> indexer;  // ratio 4
};

struct MoeWeights {
  Weight norm;  // [d]
  RouterWeights router;
  ExpertWeights routed;
  ExpertWeights shared;
};

struct Layer {
  HcWeights hc_attn;
  AttentionWeights attn;
  HcWeights hc_ffn;
  MoeWeights moe;
};

struct Model {
  ModelConfig config;
  Weight token_embd;  // [V, d]
  std::vector<Layer> layers;
  HcWeights hc_head;
  Weight output_norm;  // [d]
  Weight output;       // [V, d]
};

// One line per tensor: name and expected shape side by side. Throws kBadModel for a missing, misshapen or unexpected
// tensor (known side tensors of other modules only warn) and for a dtype that cannot play its role.
[[nodiscard]] Model bind_weights(const WeightSource& source, const ModelConfig& config);

// The tensors that bind_weights() takes, in its order; matrices are of type F32.
[[nodiscard]] std::vector<TensorSpec> list_tensors(const ModelConfig& config);

// Every weight with its role, in file order of a converter: token_embd, layers, head.
void for_each_weight(Model& model, const std::function<void(Weight&, WeightRole)>& visit);

// Replaces every weight by the backend's own form. What `source` mapped for it is released, so that a model is in
// memory once.
void upload_weights(Model& model, Ops& ops, const WeightSource& source);

}  // namespace fathom
