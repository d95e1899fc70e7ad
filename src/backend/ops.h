// Everything the model asks of a device. One call = one named step of the paper, over all rows of the current step.
// Step calls allocate nothing and may run asynchronously; only end_step waits. Activations are float32.
//
// T = rows of the step, d = hidden size, H = heads, D = head dim, k = experts per token. Section numbers are those of
// docs/model.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/cache_layout.h"
#include "backend/layer_weights.h"
#include "backend/step_batch.h"
#include "core/matrix.h"
#include "core/model_config.h"
#include "core/weight.h"

namespace fathom {

// What a weight is for: decides the form a backend keeps it in.
enum class WeightRole : uint8_t {
  kVector,     // norms, biases, sinks, scales, ape: read as float32
  kMatrix,     // left side of a product
  kMixer,      // a matrix that only its own op reads, in float32: hyper-connection mixes, routers
  kExperts,    // a stack of matrices, few of them used per row
  kEmbedding,  // rows looked up by token id
  kIdTable,    // integers looked up by token id
};

// Coefficients of one hyper-connection, from hc_enter to hc_exit.
struct HcMix {
  DeviceMat<float> post;  // [T, hc]
  DeviceMat<float> comb;  // [T, hc * hc], row = source stream, column = destination
};

struct TopK {
  DeviceMat<int32_t> ids;    // [T, k]
  DeviceMat<float> weights;  // [T, k], normalised and scaled
};

// One product of matmul(): y = w x.
struct Product {
  const Weight* weight;
  DeviceMat<float> y;  // [T, out_dim]
};

class Ops {
 public:
  virtual ~Ops() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;  // "reference", "cpu", "cuda"
  [[nodiscard]] virtual const CacheLayout& cache_layout() const = 0;

  // --- Before the first step -------------------------------------------------------------------------------------
  // Takes a weight over into the backend's own form; the result replaces the argument. Throws kOutOfMemory, kDevice,
  // kUnsupported (a dtype that cannot play this role).
  [[nodiscard]] virtual Weight upload(const Weight& weight, WeightRole role) = 0;
  // Scratch for activations, owned by the backend.
  [[nodiscard]] virtual DeviceMat<float> make_f32(int rows, int cols) = 0;
  [[nodiscard]] virtual DeviceMat<int32_t> make_i32(int rows, int cols) = 0;
  // Copies of activations, for tests and traces. Wait.
  virtual void read_f32(DeviceMat<const float> from, HostMat<float> to) = 0;
  virtual void read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) = 0;

  // --- Cache bytes (cache/ decides which, the backend holds them) ------------------------------------------------
  // Makes slots [0, n_slots) and blocks [0, n_blocks) exist. Only grows; bytes in place are never moved.
  virtual void reserve_cache(int n_slots, int n_blocks) = 0;
  virtual void copy_slot(int from, int to) = 0;
  virtual void copy_block(int from, int to) = 0;
  // Bytes in the form CacheLayout describes (slot_bytes, block_bytes). Waits.
  virtual void read_slot(int slot, std::span<std::byte> out) = 0;
  virtual void read_block(int block, std::span<std::byte> out) = 0;
  virtual void write_slot(int slot, std::span<const std::byte> in) = 0;
  virtual void write_block(int block, std::span<const std::byte> in) = 0;

  // --- One step --------------------------------------------------------------------------------------------------
  virtual void begin_step(const StepBatch& batch) = 0;

  // Every stream starts as the token's embedding. streams [T, hc * d].
  virtual void embed(const Weight& table, DeviceMat<float> streams) = 0;

  // Hyper-connection (3.2, 3.3): mix coefficients from the streams, then x = RMSNorm(sum_j pre_j X_j). x [T, d].
  virtual void hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                        DeviceMat<float> x) = 0;
  // X_k = post_k y + sum_j comb[j][k] X_j, in place.
  virtual void hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) = 0;
  // Head reduction (3.4) and final norm of the logit rows only: x [n_logits, d].
  virtual void hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                           DeviceMat<float> x) = 0;

  // Products that share one input x [T or n_logits, in_dim].
  virtual void matmul(std::span<const Product> products, DeviceMat<const float> x) = 0;
  virtual void rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) = 0;

  // Queries (4.1): per head RMS without gain, then RoPE. KV rows (4.2): RMS with gain, RoPE, FP8 simulation.
  // In place: q [T, H * D], kv [T, D].
  virtual void norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) = 0;
  // Compressor (4.5): pools every block of tokens that completes in this step, from the carried state and the
  // projections kv, gate [T, roles * width]; appends the entries and keeps the state's newest rows.
  virtual void compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                        DeviceMat<const float> gate) = 0;
  // The same for the indexer's keys.
  virtual void compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                              DeviceMat<const float> gate) = 0;
  // Lightning indexer (4.6): RoPE, Hadamard and FP4 on q [T, index_heads * index_dim], then the best index_topk of the
  // visible entries; all of them when there are no more. q is used up: it may be changed in place, or left as it is
  // where nothing is scored. weights [T, index_heads] unscaled. selected [T, index_topk]: entry numbers, ascending,
  // padded with -1.
  virtual void select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                              DeviceMat<int32_t> selected) = 0;
  // Attention (4.3, 4.4) over the window (ring, then this step's kv rows) and the compressed entries: all visible ones
  // (ratio 128) or the selected ones (ratio 4); then RoPE inverted at the query's position. context [T, H * D].
  // Afterwards the ring holds this step's newest rows. `selected` is empty for other ratios than 4.
  virtual void attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
                      DeviceMat<const int32_t> selected, DeviceMat<float> context) = 0;
  // Grouped low-rank output (4.7): group g of the context times rows [g * o_lora_rank, ...) of w.
  // low [T, o_groups * o_lora_rank].
  virtual void matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) = 0;

  // Router (5.1): sqrt(softplus) scores; chosen by biased score or by token id; weights from unbiased scores.
  virtual void route(int layer, const RouterWeights& w, DeviceMat<const float> x, TopK experts) = 0;
  // Experts (5.2, 5.3): y = sum of the chosen experts in ascending id, then the shared expert.
  virtual void experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
                       DeviceMat<const float> x, DeviceMat<float> y) = 0;

  // Waits for the step and copies the logits [n_logits, vocab] to the host. Throws kDevice when the step failed.
  virtual void end_step(DeviceMat<const float> logits, HostMat<float> out) = 0;
};

enum class BackendKind : uint8_t { kAuto, kReference, kCpu, kCuda };
[[nodiscard]] std::string_view backend_name(BackendKind kind) noexcept;

struct BackendOptions {
  BackendKind kind = BackendKind::kAuto;
  int threads = 0;        // 0: as many as this process may use
  std::string isa = {};   // cpu: forces a kernel table by name; "" = best
  bool repack = true;     // cpu: keeps quantised matrices in a form of its own; false: as the file has them
  int max_rows = 512;     // rows of the largest step
  int device = 0;         // cuda: which GPU
  size_t gpu_memory = 0;  // cuda: bytes it may take; 0: what is free
  CacheOptions cache = {};
};

// Throws kUnsupported for a backend or ISA that this build or machine lacks.
[[nodiscard]] std::unique_ptr<Ops> make_ops(const ModelConfig& config, const BackendOptions& options);

}  // namespace fathom
