// Memory, weights and the frame of a step; the steps themselves are in cuda_steps.cpp.
#include "backend/cuda/cuda_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cuda/check.h"
#include "backend/rope.h"
#include "core/check.h"
#include "core/error.h"

namespace fathom::cuda {
namespace {

constexpr size_t kMaxScores = size_t{32} << 20;

size_t widest_input(const ModelConfig& c) {
  return static_cast<size_t>(std::max({c.hidden, c.q_lora_rank, c.n_heads * c.head_dim, c.o_groups * c.o_lora_rank}));
}

}  // namespace

CudaOps::CudaOps(const ModelConfig& config, const BackendOptions& options)
    : config_(config),
      layout_(CacheLayout::make(config, options.cache)),
      max_rows_(options.max_rows),
      device_(options.device, options.gpu_memory),
      stream_(make_stream(device_)),
      launch_{.stream = stream_.get(), .overlap = false, .multiprocessors = device_.multiprocessors()},
      weights_(device_, stream_.get()),
      cache_(device_, stream_.get(), layout_),
      staging_(device_, options.max_rows, config.rope_dim) {
  const auto rows = static_cast<size_t>(max_rows_);
  const std::vector<float> plain = rope_frequencies(config, false);
  const std::vector<float> compressed = rope_frequencies(config, true);
  const size_t bytes = plain.size() * sizeof(float);
  frequencies_ = DeviceBuffer(device_, 2 * bytes, "rotary frequencies");
  CUDA_CHECK(cudaMemcpy(frequencies_.data(), plain.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(frequencies_.data() + bytes, compressed.data(), bytes, cudaMemcpyHostToDevice));

  const size_t widest = widest_input(config);
  const auto slots = static_cast<size_t>(config.n_experts_used + 1);
  const auto ffn = static_cast<size_t>(std::max(config.expert_ffn, config.shared_ffn()));
  const auto int8_bytes = [](size_t values) { return 2 * values + values / 32 * sizeof(float) + 512; };
  int8_.memory = DeviceBuffer(device_, int8_bytes(rows * widest), "int8 activations");
  low_int8_.memory = DeviceBuffer(device_, int8_bytes(rows * widest), "int8 activations");
  bf16_.memory = DeviceBuffer(device_, 2 * rows * widest, "bf16 activations");
  hidden_int8_.memory = DeviceBuffer(device_, int8_bytes(rows * slots * ffn), "int8 activations of experts");
  hidden_ = DeviceBuffer(device_, rows * slots * ffn * sizeof(float), "activations of experts");
  const size_t pairs = rows * static_cast<size_t>(config.n_experts_used);
  expert_out_ = DeviceBuffer(device_, pairs * static_cast<size_t>(config.hidden) * sizeof(float), "expert outputs");
  expert_groups_ = DeviceBuffer(device_, pairs * 8 + pairs * sizeof(RowTile) + 16, "expert groups");
  const size_t parts = static_cast<size_t>(device_.multiprocessors()) * static_cast<size_t>(config.n_heads);
  attend_partials_ = DeviceBuffer(
      device_, parts * (static_cast<size_t>(config.head_dim) * sizeof(float) + sizeof(float2)), "parts of attention");
  const auto mix = static_cast<size_t>(config.hc_mix() + 1);
  hc_partials_ =
      DeviceBuffer(device_, rows * static_cast<size_t>(hc_parts(config.hidden)) * mix * sizeof(float), "mix products");
  router_logits_ = DeviceBuffer(device_, rows * static_cast<size_t>(config.n_experts) * sizeof(float), "router logits");
  arrived_ = DeviceBuffer(device_, 256, "counters");
  CUDA_CHECK(cudaMemset(arrived_.data(), 0, arrived_.size()));
  const size_t most_scores = rows * static_cast<size_t>(config.context_length / 4 + 1);
  score_count_ = std::max(std::min(most_scores, kMaxScores), static_cast<size_t>(config.context_length / 4 + 1));
  scores_ = DeviceBuffer(device_, score_count_ * sizeof(float), "index scores");
}

CudaOps::~CudaOps() { cudaStreamSynchronize(stream_.get()); }

Weight CudaOps::upload(const Weight& weight, WeightRole role) {
  Weight result = weight;
  const int limit = role == WeightRole::kIdTable ? config_.n_experts : 0;
  result.prepared = weights_.load(weight, role, limit);
  return result;
}

DeviceMat<float> CudaOps::make_f32(int rows, int cols) {
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
  return {scratch_.emplace_back(device_, bytes, "activations").as<float>(), rows, cols};
}

DeviceMat<int32_t> CudaOps::make_i32(int rows, int cols) {
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(int32_t);
  return {scratch_.emplace_back(device_, bytes, "activations").as<int32_t>(), rows, cols};
}

namespace {

// Rows between host and device, 4-byte elements. Waits.
void copy_rows(void* to, size_t to_ld, const void* from, size_t from_ld, int rows, int cols, cudaMemcpyKind kind,
               cudaStream_t stream) {
  if (rows > 0 && cols > 0) {
    CUDA_CHECK(cudaMemcpy2DAsync(to, to_ld * 4, from, from_ld * 4, static_cast<size_t>(cols) * 4,
                                 static_cast<size_t>(rows), kind, stream));
  }
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

}  // namespace

void CudaOps::read_f32(DeviceMat<const float> from, HostMat<float> to) {
  note_read();
  flush();
  copy_rows(to.data(), static_cast<size_t>(to.ld()), from.device_ptr(), static_cast<size_t>(from.ld()), to.rows(),
            to.cols(), cudaMemcpyDeviceToHost, stream_.get());
}

void CudaOps::read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) {
  note_read();
  flush();
  copy_rows(to.data(), static_cast<size_t>(to.ld()), from.device_ptr(), static_cast<size_t>(from.ld()), to.rows(),
            to.cols(), cudaMemcpyDeviceToHost, stream_.get());
}

void CudaOps::write_f32(HostMat<const float> from, DeviceMat<float> to) {
  note_read();
  flush();
  overwrite(to.device_ptr());
  copy_rows(to.device_ptr(), static_cast<size_t>(to.ld()), from.data(), static_cast<size_t>(from.ld()), from.rows(),
            from.cols(), cudaMemcpyHostToDevice, stream_.get());
}

void CudaOps::reserve_cache(int n_slots, int n_blocks) { cache_.reserve(n_slots, n_blocks); }

void CudaOps::begin_step(const StepBatch& batch) {
  device_.make_current();
  weights_.finish();
  FATHOM_CHECK(batch.rows() <= max_rows_, "a step has more rows than the backend was made for");
  pending_.reset();
  pending_route_.reset();
  to_prepare_ = {};
  prepared_ = true;
  if (mode_ == StepMode::kCapture) {  // the step before failed half-way
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_.get(), &graph);
    cudaGraphDestroy(graph);
  }
  rows_ = batch.rows();
  positions_ = 1;
  short_runs_ = true;
  for (const SequenceSlice& s : batch.sequences) {
    positions_ = std::max(positions_, s.start + s.n_rows);
    short_runs_ = short_runs_ && s.n_rows <= layout_.options.rewind_rows + 1;
  }
  overwrite(int8_.source);
  overwrite(bf16_.source);
  staging_.stage(batch, cache_.slots(), cache_.blocks(), stream_.get());

  mode_ = StepMode::kEager;
  calls_ = 0;
  was_read_ = false;
  launch_.overlap = rows_ <= StepStaging::kFewRows;
  if (launch_.overlap) {
    // Launches must not depend on the exact position.
    positions_ = std::min(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(positions_, 1024)))),
                          std::max(config_.context_length, positions_));
    shape_ = {rows_, batch.n_logits(), positions_, short_runs_, staging_.generation()};
    start_recording();
  }
  if (mode_ != StepMode::kReplay) {
    const float* plain = frequencies_.as<float>();
    rotate_step_rows(launch_, rows_, config_.rope_dim, staging_.view().row_position, plain,
                     plain + config_.rope_dim / 2, staging_.plain_rotations(), staging_.compressed_rotations());
  }
}

void CudaOps::start_recording() {
  const auto known = records_.find(shape_);
  if (known == records_.end()) {
    return;
  }
  if (known->second.graph) {
    mode_ = StepMode::kReplay;
    return;
  }
  mode_ = StepMode::kCapture;
  CUDA_CHECK(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
}

void CudaOps::finish_recording() {
  if (!launch_.overlap) {
    return;
  }
  StepRecord& record = records_[shape_];
  if (mode_ == StepMode::kCapture) {
    record.graph = end_capture(stream_.get());
    record.calls = calls_;
  } else if (mode_ == StepMode::kEager && was_read_) {
    records_.erase(shape_);
    return;
  } else if (mode_ == StepMode::kReplay && record.calls != calls_) {
    throw Error(ErrorCode::kDevice, "cuda: a step made other calls than the last one of its shape");
  }
  if (record.graph) {
    CUDA_CHECK(cudaGraphLaunch(record.graph.get(), stream_.get()));
  }
  mode_ = StepMode::kEager;
}

void CudaOps::note_read() {
  if (mode_ != StepMode::kEager) {
    throw Error(ErrorCode::kDevice, "cuda: activations of a captured step cannot be read before its end");
  }
  was_read_ = true;
}

void CudaOps::end_step(DeviceMat<const float> logits, HostMat<float> out) {
  if (mode_ != StepMode::kReplay) {
    flush();
  }
  finish_recording();
  const size_t bytes = static_cast<size_t>(out.rows()) * static_cast<size_t>(out.cols()) * sizeof(float);
  if (bytes > logits_.size()) {
    logits_ = PinnedBuffer(device_, bytes);
  }
  copy_rows(logits_.data(), static_cast<size_t>(out.cols()), logits.device_ptr(), static_cast<size_t>(logits.ld()),
            out.rows(), out.cols(), cudaMemcpyDeviceToHost, stream_.get());
  for (int r = 0; r < out.rows(); ++r) {
    std::memcpy(out.row(r).data(), logits_.data() + static_cast<size_t>(r) * out.row(r).size_bytes(),
                out.row(r).size_bytes());
  }
}

}  // namespace fathom::cuda
