// A decorator that shows what the ops produce: forwards every call and hands named outputs to a sink. For tests and
// debugging; it waits after each step of the model.
#pragma once

#include <functional>
#include <string>

#include "backend/ops.h"

namespace fathom {

// Names: "embed", "L3.attn_in" (x of hc_enter), "L3.attn_post", "L3.attn_comb", "L3.ffn_in", ..., "L3.q_residual",
// "L3.index_q", "L3.index_topk", "L3.attn_out", "L3.route_idx", "L3.route_w", "L3.ffn_out", "L3.out" (streams),
// "final_norm", "logits".
struct TraceSink {
  std::function<void(const std::string& name, HostMat<const float>)> floats;
  std::function<void(const std::string& name, HostMat<const int32_t>)> ints;
};

class TracingOps final : public Ops {
 public:
  TracingOps(std::unique_ptr<Ops> inner, TraceSink sink) : inner_(std::move(inner)), sink_(std::move(sink)) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] const CacheLayout& cache_layout() const override { return inner_->cache_layout(); }
  [[nodiscard]] Weight upload(const Weight& weight, WeightRole role) override { return inner_->upload(weight, role); }
  [[nodiscard]] DeviceMat<float> make_f32(int rows, int cols) override { return inner_->make_f32(rows, cols); }
  [[nodiscard]] DeviceMat<int32_t> make_i32(int rows, int cols) override { return inner_->make_i32(rows, cols); }
  void read_f32(DeviceMat<const float> from, HostMat<float> to) override { inner_->read_f32(from, to); }
  void read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) override { inner_->read_i32(from, to); }
  void reserve_cache(int n_slots, int n_blocks) override { inner_->reserve_cache(n_slots, n_blocks); }
  void copy_slot(int from, int to) override { inner_->copy_slot(from, to); }
  void copy_block(int from, int to) override { inner_->copy_block(from, to); }
  void read_slot(int slot, std::span<std::byte> out) override { inner_->read_slot(slot, out); }
  void read_block(int block, std::span<std::byte> out) override { inner_->read_block(block, out); }
  void write_slot(int slot, std::span<const std::byte> in) override { inner_->write_slot(slot, in); }
  void write_block(int block, std::span<const std::byte> in) override { inner_->write_block(block, in); }

  void begin_step(const StepBatch& batch) override;
  void embed(const Weight& table, DeviceMat<float> streams) override;
  void hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                DeviceMat<float> x) override;
  void hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) override;
  void hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                   DeviceMat<float> x) override;
  void matmul(std::span<const Product> products, DeviceMat<const float> x) override { inner_->matmul(products, x); }
  void rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) override;
  void norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) override {
    inner_->norm_rope(layer, kv_norm, q, kv);
  }
  void compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                DeviceMat<const float> gate) override {
    inner_->compress(layer, w, kv, gate);
  }
  void compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                      DeviceMat<const float> gate) override {
    inner_->compress_index(layer, w, kv, gate);
  }
  void select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                      DeviceMat<int32_t> selected) override;
  void attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
              DeviceMat<const int32_t> selected, DeviceMat<float> context) override {
    inner_->attend(layer, sinks, q, kv, selected, context);
  }
  void matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) override {
    inner_->matmul_grouped(w, context, low);
  }
  void route(int layer, const RouterWeights& w, DeviceMat<const float> x, TopK experts) override;
  void experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
               DeviceMat<const float> x, DeviceMat<float> y) override;
  void end_step(DeviceMat<const float> logits, HostMat<float> out) override;

 private:
  void show(const std::string& name, DeviceMat<const float> m);
  void show(const std::string& name, DeviceMat<const int32_t> m);
  [[nodiscard]] std::string in_layer(const char* name) const;

  std::unique_ptr<Ops> inner_;
  TraceSink sink_;
  int sublayer_ = -1;  // counts hc_enter: even = attention, odd = experts
};

}  // namespace fathom
