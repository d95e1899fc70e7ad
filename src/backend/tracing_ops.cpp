#include "backend/tracing_ops.h"

#include <fmt/core.h>

#include <vector>

namespace fathom {

void TracingOps::show(const std::string& name, DeviceMat<const float> m) {
  std::vector<float> copy(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
  inner_->read_f32(m, {copy.data(), m.rows(), m.cols()});
  sink_.floats(name, {copy.data(), m.rows(), m.cols()});
}

void TracingOps::show(const std::string& name, DeviceMat<const int32_t> m) {
  std::vector<int32_t> copy(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
  inner_->read_i32(m, {copy.data(), m.rows(), m.cols()});
  sink_.ints(name, {copy.data(), m.rows(), m.cols()});
}

std::string TracingOps::in_layer(const char* name) const { return fmt::format("L{}.{}", sublayer_ / 2, name); }

void TracingOps::begin_step(const StepBatch& batch) {
  sublayer_ = -1;
  inner_->begin_step(batch);
}

void TracingOps::embed(const Weight& table, DeviceMat<float> streams) {
  inner_->embed(table, streams);
  show("embed", streams);
}

void TracingOps::hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                          DeviceMat<float> x) {
  ++sublayer_;
  inner_->hc_enter(hc, norm, streams, mix, x);
  const bool attention = sublayer_ % 2 == 0;
  show(in_layer(attention ? "attn_in" : "ffn_in"), x);
  show(in_layer(attention ? "attn_post" : "ffn_post"), mix.post);
  show(in_layer(attention ? "attn_comb" : "ffn_comb"), mix.comb);
}

void TracingOps::hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) {
  if (sublayer_ % 2 == 0) {
    show(in_layer("attn_out"), y);
  }
  inner_->hc_exit(y, mix, streams);
  if (sublayer_ % 2 == 1) {
    show(in_layer("out"), streams);
  }
}

void TracingOps::hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                             DeviceMat<float> x) {
  inner_->hc_collapse(hc, norm, streams, x);
  show("final_norm", x);
}

void TracingOps::rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) {
  inner_->rms_norm(gain, x, y);
  show(in_layer("q_residual"), y);
}

void TracingOps::select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                                DeviceMat<int32_t> selected) {
  inner_->select_entries(layer, q, weights, selected);
  show(in_layer("index_q"), q);
  show(in_layer("index_topk"), selected);
}

void TracingOps::route(int layer, const RouterWeights& w, DeviceMat<const float> x, TopK experts) {
  inner_->route(layer, w, x, experts);
  show(in_layer("route_idx"), experts.ids);
  show(in_layer("route_w"), experts.weights);
}

void TracingOps::experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
                         DeviceMat<const float> x, DeviceMat<float> y) {
  inner_->experts(layer, routed, shared, chosen, x, y);
  show(in_layer("ffn_out"), y);
}

void TracingOps::end_step(DeviceMat<const float> logits, HostMat<float> out) {
  inner_->end_step(logits, out);
  sink_.floats("logits", out);
}

}  // namespace fathom
