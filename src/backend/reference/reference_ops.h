// The executable specification: plain loops over float32 values with double accumulators. Every sum has one order that
// depends on nothing but the row itself, so chunks, companions and threads cannot change a bit. Made for small models:
// weights are widened to float32 when they are uploaded.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "backend/ops.h"
#include "core/thread_pool.h"

namespace fathom::reference {

class ReferenceOps final : public Ops {
 public:
  ReferenceOps(const ModelConfig& config, const BackendOptions& options);

  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] const CacheLayout& cache_layout() const override { return layout_; }

  [[nodiscard]] Weight upload(const Weight& weight, WeightRole role) override;
  [[nodiscard]] DeviceMat<float> make_f32(int rows, int cols) override;
  [[nodiscard]] DeviceMat<int32_t> make_i32(int rows, int cols) override;
  void read_f32(DeviceMat<const float> from, HostMat<float> to) override;
  void read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) override;

  void reserve_cache(int n_slots, int n_blocks) override;
  void copy_slot(int from, int to) override;
  void copy_block(int from, int to) override;
  void read_slot(int slot, std::span<std::byte> out) override;
  void read_block(int block, std::span<std::byte> out) override;
  void write_slot(int slot, std::span<const std::byte> in) override;
  void write_block(int block, std::span<const std::byte> in) override;

  void begin_step(const StepBatch& batch) override { batch_ = batch; }
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
  using Bytes = std::unique_ptr<std::byte[]>;

  [[nodiscard]] bool simulated() const { return layout_.options.activation_sim; }
  [[nodiscard]] const std::vector<float>& frequencies(int layer) const {
    return config_.ratio(layer) > 0 ? compressed_frequencies_ : plain_frequencies_;
  }
  // Where entry `c` of the sequence lies, and the position its slot holds.
  [[nodiscard]] std::byte* kv_entry(const SequenceSlice& sequence, const LayerCache& layer, int c) const;
  [[nodiscard]] std::byte* index_entry(const SequenceSlice& sequence, const LayerCache& layer, int c) const;
  [[nodiscard]] std::byte* ring_row(const SequenceSlice& sequence, const LayerCache& layer, int position) const;

  // What a stored KV row keeps of its values: the FP8 grid, and bfloat16 rotary dims where rows are packed.
  void round_kv_row(std::span<float> row) const;
  void store_kv_row(std::span<const float> row, std::byte* out) const;
  void load_kv_row(const std::byte* in, std::span<float> row) const;
  void store_index_row(std::span<const float> row, std::byte* out) const;
  void load_index_row(const std::byte* in, std::span<float> row) const;

  // Pools completed blocks of one sequence and hands each finished entry to `store(c, row)`.
  template <class Store>
  void pool_entries(const SequenceSlice& sequence, int layer, const CompressorState& state, const CompressorWeights& w,
                    DeviceMat<const float> kv, DeviceMat<const float> gate, Store&& store);
  void attend_row(int layer, const SequenceSlice& sequence, int row, const Weight& sinks, DeviceMat<const float> q,
                  DeviceMat<const float> kv, DeviceMat<const int32_t> selected, DeviceMat<float> context) const;
  void rotate_query_row(int layer, int position, std::span<float> heads) const;

  ModelConfig config_;
  CacheLayout layout_;
  ThreadPool pool_;
  std::vector<float> plain_frequencies_;
  std::vector<float> compressed_frequencies_;

  StepBatch batch_;
  std::vector<Bytes> slots_;
  std::vector<Bytes> blocks_;
  std::deque<std::vector<float>> weights_;  // deque: `prepared` pointers stay valid
  std::deque<std::vector<int32_t>> tables_;
  std::deque<std::vector<float>> scratch_f32_;
  std::deque<std::vector<int32_t>> scratch_i32_;
  std::vector<float> hidden_;  // [max_rows * (k + 1), max expert width] between the two products of an expert
};

}  // namespace fathom::reference
