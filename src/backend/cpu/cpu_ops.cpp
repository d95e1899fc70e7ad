#include "backend/cpu/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/zeroed.h"
#include "core/cpu_count.h"
#include "core/error.h"
#include "weights/dequantize.h"
#include "weights/id_table.h"

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
    : kernels_(select_kernels(options.isa)),
      config_(config),
      pool_({.threads = options.threads > 0 ? options.threads : default_thread_count()}),
      max_rows_(options.max_rows),
      repack_(options.repack),
      workspaces_(static_cast<size_t>(pool_.threads())),
      input_(tiles_for(options.max_rows), widest_input(config), config.o_groups),
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
    attention_scratch_.emplace_back(config, attends_in_tiles());
    index_scratch_.emplace_back(config);
    entry_scratch_.emplace_back(static_cast<size_t>(std::max(config.head_dim, config.index_dim) + 2 * config.rope_dim) *
                                sizeof(float));
  }
  const auto rows = static_cast<size_t>(expert_tiles(config, options.max_rows)) * kTileRows;
  const auto width = static_cast<size_t>(std::max(config.expert_ffn, config.shared_ffn()) + 2 * kBlockColumns);
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
      const PackedMatrix& packed = matrices_.emplace_back(weight, repack_, pool_);
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
    case WeightRole::kIdTable:
      result.prepared = &tables_.emplace_back(read_id_table(weight, config_.n_experts));
      return result;
    case WeightRole::kVector:
    case WeightRole::kMixer:
      break;
  }
  const auto in = static_cast<size_t>(weight.in_dim);
  std::vector<float>& wide = vectors_.emplace_back(static_cast<size_t>(weight.out_dim) * in);
  for (int row = 0; row < weight.out_dim; ++row) {
    dequantize_row(weight, 0, row, wide.data() + static_cast<size_t>(row) * in);
  }
  result.prepared = &wide;
  return result;
}

size_t CpuOps::scratch_bytes() const {
  size_t bytes = input_.bytes() + gathered_.bytes() + hidden_codes_.bytes() + gate_.size() + up_.size();
  for (const HostBuffer& buffer : scratch_) {
    bytes += buffer.size();
  }
  for (const HostBuffer& buffer : partial_) {
    bytes += buffer.size();
  }
  return bytes;
}

DeviceMat<float> CpuOps::make_f32(int rows, int cols) {
  HostBuffer& buffer =
      scratch_.emplace_back(zeroed_buffer(static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float)));
  return {buffer.as<float>().data(), rows, cols};
}

DeviceMat<int32_t> CpuOps::make_i32(int rows, int cols) {
  HostBuffer& buffer =
      scratch_.emplace_back(zeroed_buffer(static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(int32_t)));
  return {buffer.as<int32_t>().data(), rows, cols};
}

void CpuOps::read_f32(DeviceMat<const float> from, HostMat<float> to) {
  for (int r = 0; r < to.rows(); ++r) {
    std::copy_n(from.device_ptr() + r * from.ld(), to.cols(), to.row(r).data());
  }
}

void CpuOps::read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) {
  for (int r = 0; r < to.rows(); ++r) {
    std::copy_n(from.device_ptr() + r * from.ld(), to.cols(), to.row(r).data());
  }
}

void CpuOps::embed(const Weight& table, DeviceMat<float> streams) {
  const auto d = static_cast<size_t>(config_.hidden);
  for (int r = 0; r < streams.rows(); ++r) {
    float* out = streams.device_ptr() + r * streams.ld();
    dequantize_row(table, 0, plan_.batch().tokens[static_cast<size_t>(r)], out);
    for (int j = 1; j < config_.hc; ++j) {
      std::copy_n(out, d, out + static_cast<size_t>(j) * d);
    }
  }
}

}  // namespace fathom::cpu
