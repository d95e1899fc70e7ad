// A decorator that measures: how long every op takes, the weights it reads and the arithmetic of its products. It waits
// after each op, which an asynchronous backend would not do by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/ops.h"

namespace fathom {

struct OpProfile {
  std::string op;  // "attend"; of products also the first weight: "matmul attn_q_a"
  uint64_t calls = 0;
  double seconds = 0.0;
  double weight_bytes = 0.0;  // as the file stores them; of experts, those that some row chose
  double operations = 0.0;    // multiplications and additions of matrix products
};

class ProfilingOps final : public Ops {
 public:
  explicit ProfilingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  // What was measured since the last time, the slowest first; measuring starts anew.
  [[nodiscard]] std::vector<OpProfile> take();

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
  void matmul(std::span<const Product> products, DeviceMat<const float> x) override;
  void rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) override;
  void norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) override;
  void compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv, DeviceMat<const float> gate) override;
  void compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                      DeviceMat<const float> gate) override;
  void select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                      DeviceMat<int32_t> selected) override;
  void attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
              DeviceMat<const int32_t> selected, DeviceMat<float> context) override;
  void matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) override;
  void route(int layer, const RouterWeights& w, DeviceMat<const float> x, TopK experts) override;
  void experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
               DeviceMat<const float> x, DeviceMat<float> y) override;
  void end_step(DeviceMat<const float> logits, HostMat<float> out) override;

 private:
  // What an op reads and computes.
  struct Work {
    double weight_bytes = 0.0;
    double operations = 0.0;

    // A product of `rows` rows with all of `w`.
    void add_product(const Weight& w, int rows);
  };
  // Runs `call` and waits for what it wrote to `result`.
  template <class Call>
  void measure(std::string op, const Work& work, DeviceMat<const float> result, Call&& call);
  [[nodiscard]] int count_experts(const TopK& chosen, int n_experts);

  std::unique_ptr<Ops> inner_;
  std::map<std::string, OpProfile> profiles_;
  std::vector<int32_t> ids_;
  std::vector<bool> used_;
};

}  // namespace fathom
