// Weights, scratch and cache bytes; the steps are in the files named after the parts of the model.
#include "backend/reference/reference_ops.h"

#include <algorithm>
#include <cstring>

#include "backend/reference/math.h"
#include "core/activation_sim.h"
#include "core/check.h"
#include "core/cpu_count.h"
#include "core/packed_rows.h"
#include "core/scalar.h"
#include "weights/dequantize.h"
#include "weights/id_table.h"

namespace fathom::reference {

ReferenceOps::ReferenceOps(const ModelConfig& config, const BackendOptions& options)
    : config_(config),
      layout_(CacheLayout::make(config, options.cache)),
      pool_({.threads = options.threads > 0 ? options.threads : default_thread_count()}),
      plain_frequencies_(rope_frequencies(config, false)),
      compressed_frequencies_(rope_frequencies(config, true)),
      hidden_(static_cast<size_t>(options.max_rows) * static_cast<size_t>(config.n_experts_used + 1) *
              static_cast<size_t>(std::max(config.expert_ffn, config.shared_ffn()))) {}

Weight ReferenceOps::upload(const Weight& weight, WeightRole role) {
  Weight result = weight;
  const auto out = static_cast<size_t>(weight.out_dim);
  const auto in = static_cast<size_t>(weight.in_dim);
  if (role == WeightRole::kIdTable) {
    result.prepared = &tables_.emplace_back(read_id_table(weight, config_.n_experts));
    return result;
  }
  std::vector<float>& wide = weights_.emplace_back(static_cast<size_t>(weight.count()) * out * in);
  for (int slice = 0; slice < weight.count(); ++slice) {
    pool_.parallel_for(weight.out_dim, [&](Range range, int) {
      for (int64_t row = range.first; row < range.last; ++row) {
        float* to = wide.data() + (static_cast<size_t>(slice) * out + static_cast<size_t>(row)) * in;
        dequantize_row(weight, slice, static_cast<int>(row), to);
      }
    });
  }
  result.prepared = &wide;
  return result;
}

DeviceMat<float> ReferenceOps::make_f32(int rows, int cols) {
  std::vector<float>& data = scratch_f32_.emplace_back(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  return {data.data(), rows, cols};
}

DeviceMat<int32_t> ReferenceOps::make_i32(int rows, int cols) {
  std::vector<int32_t>& data = scratch_i32_.emplace_back(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  return {data.data(), rows, cols};
}

void ReferenceOps::read_f32(DeviceMat<const float> from, HostMat<float> to) {
  for (int r = 0; r < to.rows(); ++r) {
    std::copy_n(from.device_ptr() + r * from.ld(), to.cols(), to.row(r).data());
  }
}

void ReferenceOps::read_i32(DeviceMat<const int32_t> from, HostMat<int32_t> to) {
  for (int r = 0; r < to.rows(); ++r) {
    std::copy_n(from.device_ptr() + r * from.ld(), to.cols(), to.row(r).data());
  }
}

void ReferenceOps::end_step(DeviceMat<const float> logits, HostMat<float> out) { read_f32(logits, out); }

void ReferenceOps::reserve_cache(int n_slots, int n_blocks) {
  const auto grow = [](std::vector<Bytes>& owned, int n, size_t bytes) {
    while (static_cast<int>(owned.size()) < n) {
      owned.push_back(std::make_unique<std::byte[]>(bytes));
    }
  };
  grow(slots_, n_slots, layout_.slot_bytes);
  grow(blocks_, n_blocks, layout_.block_bytes);
}

void ReferenceOps::copy_slot(int from, int to) {
  std::memcpy(slots_[static_cast<size_t>(to)].get(), slots_[static_cast<size_t>(from)].get(), layout_.slot_bytes);
}

void ReferenceOps::copy_block(int from, int to) {
  std::memcpy(blocks_[static_cast<size_t>(to)].get(), blocks_[static_cast<size_t>(from)].get(), layout_.block_bytes);
}

void ReferenceOps::read_slot(int slot, std::span<std::byte> out) {
  FATHOM_CHECK(out.size() == layout_.slot_bytes, "a slot is read whole");
  std::memcpy(out.data(), slots_[static_cast<size_t>(slot)].get(), out.size());
}

void ReferenceOps::read_block(int block, std::span<std::byte> out) {
  FATHOM_CHECK(out.size() == layout_.block_bytes, "a block is read whole");
  std::memcpy(out.data(), blocks_[static_cast<size_t>(block)].get(), out.size());
}

void ReferenceOps::write_slot(int slot, std::span<const std::byte> in) {
  FATHOM_CHECK(in.size() == layout_.slot_bytes, "a slot is written whole");
  std::memcpy(slots_[static_cast<size_t>(slot)].get(), in.data(), in.size());
}

void ReferenceOps::write_block(int block, std::span<const std::byte> in) {
  FATHOM_CHECK(in.size() == layout_.block_bytes, "a block is written whole");
  std::memcpy(blocks_[static_cast<size_t>(block)].get(), in.data(), in.size());
}

std::byte* ReferenceOps::kv_entry(const SequenceSlice& sequence, const LayerCache& layer, int c) const {
  const int block = sequence.blocks[static_cast<size_t>(c / layer.rows_per_block)];
  const auto row = static_cast<size_t>(c % layer.rows_per_block);
  return blocks_[static_cast<size_t>(block)].get() + layer.kv_offset + row * layout_.kv_row_bytes;
}

std::byte* ReferenceOps::index_entry(const SequenceSlice& sequence, const LayerCache& layer, int c) const {
  const int block = sequence.blocks[static_cast<size_t>(c / layer.rows_per_block)];
  const auto row = static_cast<size_t>(c % layer.rows_per_block);
  return blocks_[static_cast<size_t>(block)].get() + layer.index_offset + row * layout_.index_row_bytes;
}

std::byte* ReferenceOps::ring_row(const SequenceSlice& sequence, const LayerCache& layer, int position) const {
  const auto row = static_cast<size_t>(position % layout_.ring_rows);
  return slots_[static_cast<size_t>(sequence.slot)].get() + layer.ring_offset + row * layout_.kv_row_bytes;
}

void ReferenceOps::round_kv_row(std::span<float> row) const {
  if (simulated()) {
    fp8_simulate(row.first(static_cast<size_t>(config_.nope_dim())));
  }
  if (layout_.options.kv_type == KvType::kPacked) {
    for (float& v : row.last(static_cast<size_t>(config_.rope_dim))) {
      v = bf16_to_f32(f32_to_bf16(v));
    }
  }
}

void ReferenceOps::store_kv_row(std::span<const float> row, std::byte* out) const {
  if (layout_.options.kv_type == KvType::kPacked) {
    pack_kv_row({config_.nope_dim(), config_.rope_dim}, row, {out, layout_.kv_row_bytes});
  } else {
    std::memcpy(out, row.data(), row.size_bytes());
  }
}

void ReferenceOps::load_kv_row(const std::byte* in, std::span<float> row) const {
  if (layout_.options.kv_type == KvType::kPacked) {
    unpack_kv_row({config_.nope_dim(), config_.rope_dim}, {in, layout_.kv_row_bytes}, row);
  } else {
    std::memcpy(row.data(), in, row.size_bytes());
  }
}

void ReferenceOps::store_index_row(std::span<const float> row, std::byte* out) const {
  if (layout_.options.kv_type == KvType::kPacked) {
    pack_index_row({config_.index_dim}, row, {out, layout_.index_row_bytes});
  } else {
    std::memcpy(out, row.data(), row.size_bytes());
  }
}

void ReferenceOps::load_index_row(const std::byte* in, std::span<float> row) const {
  if (layout_.options.kv_type == KvType::kPacked) {
    unpack_index_row({config_.index_dim}, {in, layout_.index_row_bytes}, row);
  } else {
    std::memcpy(row.data(), in, row.size_bytes());
  }
}

}  // namespace fathom::reference
