// Ops on host memory with the kernels of one instruction set. Owns packed weights, activation scratch and cache bytes.
#pragma once

#include <deque>
#include <vector>

#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/cache_store.h"
#include "backend/cpu/index_scratch.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/quantised_rows.h"
#include "backend/cpu/step_plan.h"
#include "backend/ops.h"
#include "core/thread_pool.h"

namespace fathom::cpu {

class CpuOps final : public Ops {
 public:
  CpuOps(const ModelConfig& config, const BackendOptions& options);

  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] const CacheLayout& cache_layout() const override { return cache_.layout(); }
  [[nodiscard]] const char* isa() const { return kernels_.isa; }
  // Memory made before the first step beside weights and cache, without what products take of each thread.
  [[nodiscard]] size_t scratch_bytes() const;

  [[nodiscard]] Weight upload(const Weight& weight, WeightRole role) override;
  [[nodiscard]] DeviceMat<float> make_f32(int rows, int cols) override;
  [[nodiscard]] DeviceMat<int32_t> make_i32(int rows, int cols) override;
  void read_f32(DeviceMat<const float> from, HostMat<float> to) override;
  void read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) override;

  void reserve_cache(int n_slots, int n_blocks) override { cache_.reserve(n_slots, n_blocks); }
  void copy_slot(int from, int to) override { cache_.copy_slot(from, to); }
  void copy_block(int from, int to) override { cache_.copy_block(from, to); }
  void read_slot(int slot, std::span<std::byte> out) override { cache_.read_slot(slot, out); }
  void read_block(int block, std::span<std::byte> out) override { cache_.read_block(block, out); }
  void write_slot(int slot, std::span<const std::byte> in) override { cache_.write_slot(slot, in); }
  void write_block(int block, std::span<const std::byte> in) override { cache_.write_block(block, in); }

  void begin_step(const StepBatch& batch) override { plan_.make(batch, pool_); }
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
  void end_step(DeviceMat<const float> logits, HostMat<float> out) override { read_f32(logits, out); }

 private:
  // One product's inputs: quantised rows for weights of integer codes, floats for the others.
  struct Input {
    const QuantisedRows* quantised;
    int first_tile = 0;
    int first_block = 0;
    const float* floats = nullptr;
    ptrdiff_t ld = 0;
    int rows = 0;
  };
  // The outputs of one panel for all rows, into y [rows][ld] at the panel's first lane.
  void multiply_panel(const PackedMatrix& w, int slice, int panel, const Input& x, float* y, ptrdiff_t ld,
                      int first_lane, int last_lane, int thread);
  // `group` blocks share a scale; rows are `segments` parts (QuantisedRows::set_shape).
  void quantise_rows(QuantisedRows& out, DeviceMat<const float> x, int group, int segments = 1);
  // Runs body(range, thread) over [0, n); on the caller's thread when the work, in bytes of weights, is not worth more.
  template <class Body>
  void split(int64_t n, size_t work_bytes, Body&& body);

  // Rows of a step by the expert that takes them; expert n_experts is the shared one and takes all.
  struct ExpertRows {
    int expert;
    int first;  // in row_of_
    int count;
    int tile;  // of the gathered rows
  };
  void group_by_expert(const TopK& chosen, int rows);
  void gather_rows(DeviceMat<const float> x, int routed_group, int shared_group);
  // Values from one row between the two products of an expert to the next.
  [[nodiscard]] ptrdiff_t hidden_stride() const {
    return static_cast<ptrdiff_t>(hidden_codes_.blocks()) * kBlockColumns;
  }
  void expand_experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen);
  void reduce_experts(const ExpertWeights& routed, const ExpertWeights& shared, DeviceMat<float> y);

  class TileAttention;
  struct CompressorInput;

  [[nodiscard]] bool simulated() const { return cache_.layout().options.activation_sim; }
  [[nodiscard]] bool packed_rows() const { return cache_.layout().options.kv_type == KvType::kPacked; }

  // What a stored KV row keeps of its values: the FP8 grid, and bfloat16 rotary dims where rows are packed.
  void round_kv_row(float* row) const;
  void store_kv_row(const float* row, std::byte* out) const;
  void load_kv_row(const std::byte* in, float* row) const;
  [[nodiscard]] bool attends_in_tiles() const;
  void store_window(int layer, DeviceMat<const float> kv);

  // y [x.rows, w.out_dim] = w x in float32, for a weight of role kMixer.
  void mix_product(const Weight& w, DeviceMat<const float> x, DeviceMat<float> y);
  [[nodiscard]] double streams_scale(const float* streams) const;  // 1 / rms
  void collapse_row(const float* streams, const float* pre, const Weight& norm, float* y) const;
  void route_row(const RouterWeights& w, int r, float* scores, const TopK& experts) const;

  // Pools completed blocks of one sequence and hands each finished entry to `store(c, row)`.
  template <class Store>
  void pool_entries(int layer, const Weight& norm, const CompressorInput& in, Store&& store);
  void pool_entry(const CompressorInput& in, int c, float* entry);
  void keep_newest(const CompressorInput& in, int end);

  [[nodiscard]] bool scores_codes() const;
  void rotate_index_row(int layer, int r, DeviceMat<float> q) const;
  void set_index_query(int r, DeviceMat<const float> q, DeviceMat<const float> weights, IndexScratch& scratch) const;
  void score_entries(int layer, const SequenceSlice& sequence, Range entries, const IndexQuery& query,
                     IndexScratch& scratch);
  void unpack_index_rows(const std::byte* rows, int n, IndexScratch& scratch) const;

  const CpuKernels& kernels_;
  ModelConfig config_;
  ThreadPool pool_;
  std::deque<std::vector<float>> vectors_;  // deques: `prepared` pointers stay valid
  std::deque<std::vector<int32_t>> tables_;
  std::deque<HostBuffer> scratch_;
  int max_rows_;
  bool repack_;
  std::deque<PackedMatrix> matrices_;
  std::vector<HostBuffer> workspaces_;  // one per thread

  QuantisedRows input_;  // of matmul
  // Experts: rows gathered by expert, and what lies between their two products.
  QuantisedRows gathered_;
  QuantisedRows hidden_codes_;
  HostBuffer gathered_floats_;
  HostBuffer gate_;
  HostBuffer up_;
  std::vector<HostBuffer> partial_;  // one per thread: an expert's share of one output panel
  std::vector<ExpertRows> groups_;
  std::vector<int> row_of_;       // rows of the step, grouped
  std::vector<float> weight_of_;  // their routing weights
  std::vector<int> count_;

  CacheStore cache_;
  StepPlan plan_;
  float attention_scale_;
  DeviceMat<float> mix_scratch_;  // [max_rows, outputs of the widest mix]
  // One per thread:
  std::vector<AttentionScratch> attention_scratch_;
  std::vector<IndexScratch> index_scratch_;
  std::vector<HostBuffer> entry_scratch_;  // a pooled entry and its rotation
};

}  // namespace fathom::cpu
