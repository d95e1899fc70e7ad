// Ops on one NVIDIA GPU. Everything runs on one stream; only end_step and the read functions wait.
//
// A step of few rows that repeats the calls of an earlier one of the same shape is captured as a graph, and from then
// on replayed: its ops only check that they are called as before.
//
// Below the seam: products with integer formats take int8 blocks of activations when a step has few rows (memory
// speed), bf16 activations on tensor cores when it has many. hc_exit is put off until the next hc_enter, which does
// both in one pass over the streams.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "backend/cuda/cache_store.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/params.h"
#include "backend/cuda/step_staging.h"
#include "backend/cuda/weight_loader.h"
#include "backend/ops.h"

namespace fathom::cuda {

class CudaOps final : public Ops {
 public:
  CudaOps(const ModelConfig& config, const BackendOptions& options);
  ~CudaOps() override;

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] const CacheLayout& cache_layout() const override { return layout_; }

  [[nodiscard]] Weight upload(const Weight& weight, WeightRole role) override;
  [[nodiscard]] DeviceMat<float> make_f32(int rows, int cols) override;
  [[nodiscard]] DeviceMat<int32_t> make_i32(int rows, int cols) override;
  void read_f32(DeviceMat<const float> from, HostMat<float> to) override;
  void read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) override;
  // Copies to an activation, for tests and benchmarks. Waits.
  void write_f32(HostMat<const float> from, DeviceMat<float> to);

  void reserve_cache(int n_slots, int n_blocks) override;
  void copy_slot(int from, int to) override { cache_.copy_slot(from, to); }
  void copy_block(int from, int to) override { cache_.copy_block(from, to); }
  void read_slot(int slot, std::span<std::byte> out) override { cache_.read_slot(slot, out); }
  void read_block(int block, std::span<std::byte> out) override { cache_.read_block(block, out); }
  void write_slot(int slot, std::span<const std::byte> in) override { cache_.write_slot(slot, in); }
  void write_block(int block, std::span<const std::byte> in) override { cache_.write_block(block, in); }

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
  struct PendingExit {
    DeviceMat<const float> y;
    HcMix mix;
    DeviceMat<float> streams;
  };
  // The choice of experts waits for the experts, whose shared one can run beside it.
  struct PendingRoute {
    RouteParams params;
    DeviceWeight gate;
    View<const float> x;
  };
  enum class StepMode : uint8_t { kEager, kCapture, kReplay };
  // What the launches of a step depend on, besides its calls.
  struct StepShape {
    int rows = 0;
    int n_logits = 0;
    int positions = 0;  // the step's positions are below this
    bool short_runs = false;
    int generation = 0;  // of the staging buffers
    auto operator<=>(const StepShape&) const = default;
  };
  struct StepRecord {
    uint64_t calls = 0;  // hash of the ops called and of all they were given
    GraphHandle graph;   // null until the same calls have been seen before
  };
  // The narrow copy of the last activations that a product took, so that it is made once for all that share them.
  struct Narrow {
    DeviceBuffer memory;
    const float* source = nullptr;
    int rows = 0;
    int cols = 0;
  };

  [[nodiscard]] bool few_rows(int rows) const;
  // Notes the call. False: the launches of this step are in a graph already.
  template <class... Args>
  [[nodiscard]] bool enter(int op, const Args&... args);
  void start_recording();
  void finish_recording();
  void note_read();
  // Launches what norm_rope and the ops between it and attend have put together.
  void prepare();
  void finish_route();
  // Whatever was put off is done.
  void flush();
  // `data` is about to be overwritten: narrow copies of it are stale.
  void overwrite(const float* data);
  [[nodiscard]] QuantRows quant_rows(const Narrow& narrow, int rows, int cols) const;
  [[nodiscard]] QuantRows quantized(DeviceMat<const float> x);
  [[nodiscard]] const uint16_t* narrowed(DeviceMat<const float> x);
  // Where a kernel may write the int8 form of its output x; it becomes the current one. Null codes where unwanted.
  [[nodiscard]] QuantRows offer_quantized(DeviceMat<const float> x);
  void multiply(std::span<const ProductTask> tasks, DeviceMat<const float> x);
  // Pairs of row and choice, by expert, on the device.
  struct ExpertGroups {
    const int32_t* pairs;
    const float* pair_weights;
    const RowTile* tiles;
    const int32_t* n_tiles;
    int max_tiles;
  };
  [[nodiscard]] ExpertGroups group_rows(const ExpertParams& p, int tile_rows);
  void experts_grouped_rows(ExpertParams p);
  void experts_many_rows(const ExpertParams& p, DeviceMat<const float> x);
  [[nodiscard]] CacheParams cache_params(int layer) const;
  [[nodiscard]] CompressParams compress_params(int layer, const CompressorState& state, const CompressorWeights& w,
                                               DeviceMat<const float> kv, DeviceMat<const float> gate) const;
  [[nodiscard]] HcParams hc_params(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                                   DeviceMat<float> x);
  [[nodiscard]] int max_visible(int ratio) const;

  ModelConfig config_;
  CacheLayout layout_;
  int max_rows_;
  Device device_;
  StreamHandle stream_;
  Launch launch_;
  WeightLoader weights_;
  CacheStore cache_;
  StepStaging staging_;
  DeviceBuffer frequencies_;  // [2, rope / 2]: plain, compressed
  std::deque<DeviceBuffer> scratch_;

  Narrow int8_;
  Narrow low_int8_;  // what a product writes while int8_ holds its input
  Narrow bf16_;
  Narrow hidden_int8_;
  DeviceBuffer hc_partials_;
  DeviceBuffer attend_partials_;
  DeviceBuffer router_logits_;
  DeviceBuffer arrived_;  // counters of blocks, zero between launches
  DeviceBuffer scores_;
  size_t score_count_ = 0;
  DeviceBuffer hidden_;
  DeviceBuffer expert_out_;     // [rows * used, hidden]
  DeviceBuffer expert_groups_;  // pairs, their weights, tiles, the number of tiles
  PinnedBuffer logits_;

  int rows_ = 0;
  int n_logits_ = 0;
  int positions_ = 0;        // all of the step lie below
  bool short_runs_ = false;  // no sequence has so many rows that its own newest ones displace what its oldest need
  StepMode mode_ = StepMode::kEager;
  StepShape shape_;
  uint64_t calls_ = 0;
  bool was_read_ = false;
  std::map<StepShape, StepRecord> records_;
  std::unique_ptr<PendingExit> pending_;
  std::unique_ptr<PendingRoute> pending_route_;
  PrepareParams to_prepare_;
  bool prepared_ = true;
};

}  // namespace fathom::cuda
