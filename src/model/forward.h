// One step of the model over all its rows, the same for every backend and for prefill, decode and verification.
#pragma once

#include "backend/ops.h"
#include "model/model.h"

namespace fathom {

// Activations between ops, allocated once for the largest step. [T = max_rows, ...]
struct Scratch {
  DeviceMat<float> streams;  // [T, hc * d]
  HcMix mix;
  DeviceMat<float> x;                     // [T, d] input of a sublayer
  DeviceMat<float> y;                     // [T, d] output of a sublayer
  DeviceMat<float> q_low;                 // [T, q_lora_rank]
  DeviceMat<float> q_low_n;               // the same, normed
  DeviceMat<float> q;                     // [T, H * D]
  DeviceMat<float> kv;                    // [T, D]
  DeviceMat<float> comp_kv, comp_gate;    // [T, 2 * D]
  DeviceMat<float> index_kv, index_gate;  // [T, 2 * index_dim]
  DeviceMat<float> index_q;               // [T, index_heads * index_dim]
  DeviceMat<float> index_weights;         // [T, index_heads]
  DeviceMat<int32_t> selected;            // [T, index_topk]
  DeviceMat<float> context;               // [T, H * D]
  DeviceMat<float> low;                   // [T, o_groups * o_lora_rank]
  TopK experts;
  DeviceMat<float> logits;  // [T, V]

  // `max_logits`: rows whose logits may be asked for in one step.
  [[nodiscard]] static Scratch make(Ops& ops, const ModelConfig& config, int max_rows, int max_logits);
};

// Runs the rows of `batch` through the model; logits [batch.n_logits(), V].
void forward(Ops& ops, const Model& model, const StepBatch& batch, const Scratch& scratch, HostMat<float> logits);

}  // namespace fathom
