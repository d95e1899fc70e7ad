#include "backend/cpu/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "weights/dequantize.h"

namespace fathom::cpu {
namespace {

int tiles_for(int rows) { return (rows + kTileRows - 1) / kTileRows; }

int widest_input(const ModelConfig& c) {
  return std::max({c.hidden, c.q_lora_rank, c.n_heads * c.head_dim, c.o_groups * c.o_lora_rank});
}

// Tiles of rows grouped by expert: every group starts a tile of its own.
int expert_tiles(const ModelConfig& c, int rows) {
  const int routed = rows * c.n_experts_used;
  return tiles_for(routed) + std::min(routed, c.n_experts) + tiles_for(rows);
}

}  // namespace

CpuOps::CpuOps(const ModelConfig& config, const BackendOptions& options)
    : ReferenceOps(config, options),
      kernels_(select_kernels(options.isa)),
      max_rows_(options.max_rows),
      workspaces_(static_cast<size_t>(pool_.threads())),
      input_(tiles_for(options.max_rows), widest_input(config)),
      gathered_(expert_tiles(config, options.max_rows), config.hidden),
      hidden_codes_(expert_tiles(config, options.max_rows), std::max(config.expert_ffn, config.shared_ffn())),
      count_(static_cast<size_t>(config.n_experts)),
      cache_(CacheLayout::make(config, options.cache)),
      plan_(config, options.max_rows),
      attention_scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))),
      mix_scratch_(make_f32(options.max_rows, std::max({config.hc_mix(), config.hc, config.n_experts}))) {
  if (config.hc > kMaxStreams) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("cpu backend: hyper-connections of {} streams, expected at most {}", config.hc, kMaxStreams));
  }
  for (int t = 0; t < pool_.threads(); ++t) {
    attention_scratch_.emplace_back(config);
    index_scratch_.emplace_back(config);
    entry_scratch_.emplace_back(static_cast<size_t>(std::max(config.head_dim, config.index_dim) + 2 * config.rope_dim) *
                                sizeof(float));
  }
  const auto rows = static_cast<size_t>(expert_tiles(config, options.max_rows)) * kTileRows;
  const auto width = static_cast<size_t>(std::max(config.expert_ffn, config.shared_ffn()) + kBlockColumns);
  gate_ = HostBuffer(rows * width * sizeof(float));
  up_ = HostBuffer(rows * width * sizeof(float));
  for (int t = 0; t < pool_.threads(); ++t) {
    partial_.emplace_back(static_cast<size_t>(options.max_rows) * kLanes * sizeof(float));
  }
  row_of_.resize(static_cast<size_t>(options.max_rows) * static_cast<size_t>(config.n_experts_used + 1));
  weight_of_.resize(row_of_.size());
  groups_.reserve(static_cast<size_t>(config.n_experts) + 1);
}

Weight CpuOps::upload(const Weight& weight, WeightRole role) {
  Weight result = weight;
  switch (role) {
    case WeightRole::kEmbedding:
      return result;  // looked up row by row, where the file has it
    case WeightRole::kMatrix:
    case WeightRole::kExperts: {
      const PackedMatrix& packed = matrices_.emplace_back(weight, pool_);
      for (HostBuffer& workspace : workspaces_) {
        if (workspace.size() < packed.workspace_bytes()) {
          workspace = HostBuffer(packed.workspace_bytes());
        }
      }
      if (!packed.format().quantised() && weight.in_dim == config_.hidden && gathered_floats_.size() == 0) {
        gathered_floats_ = HostBuffer(static_cast<size_t>(expert_tiles(config_, max_rows_)) * kTileRows *
                                      static_cast<size_t>(config_.hidden) * sizeof(float));
      }
      result.prepared = &packed;
      return result;
    }
    default:
      return ReferenceOps::upload(weight, role);
  }
}

void CpuOps::begin_step(const StepBatch& batch) {
  ReferenceOps::begin_step(batch);
  plan_.make(batch, pool_);
}

void CpuOps::embed(const Weight& table, DeviceMat<float> streams) {
  const auto d = static_cast<size_t>(config_.hidden);
  for (int r = 0; r < streams.rows(); ++r) {
    float* out = streams.device_ptr() + r * streams.ld();
    dequantize_row(table, 0, batch_.tokens[static_cast<size_t>(r)], out);
    for (int j = 1; j < config_.hc; ++j) {
      std::copy_n(out, d, out + static_cast<size_t>(j) * d);
    }
  }
}

}  // namespace fathom::cpu
