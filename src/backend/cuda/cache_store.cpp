#include "backend/cuda/cache_store.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/check.h"
#include "core/check.h"
#include "core/packed_rows.h"

namespace fathom::cuda {
namespace {

size_t aligned(size_t n) { return (n + 255) / 256 * 256; }

// Moves one region between rows of several parts and one plane for each part.
void translate_region(const std::byte* from, std::byte* to, size_t rows, std::span<const size_t> part_bytes,
                      bool to_host) {
  size_t row_bytes = 0;
  for (const size_t n : part_bytes) {
    row_bytes += n;
  }
  size_t before = 0;
  for (const size_t n : part_bytes) {
    for (size_t r = 0; r < rows; ++r) {
      const size_t in_row = r * row_bytes + before;
      const size_t in_plane = rows * before + r * n;
      std::memcpy(to + (to_host ? in_row : in_plane), from + (to_host ? in_plane : in_row), n);
    }
    before += n;
  }
}

// Planes of a region, as in a row of core/packed_rows.h: codes, scales, rotary dims. Kernels keep the rotary dims,
// which they read as 16-bit words, before the scales.
void translate_kv(const std::byte* from, std::byte* to, size_t rows, const KvRowLayout& row, bool to_host) {
  const auto codes = static_cast<size_t>(row.nope);
  const auto scales = static_cast<size_t>(row.n_scales());
  const size_t rope = 2 * static_cast<size_t>(row.rope);
  const auto move = [&](size_t r, size_t in_row, size_t in_plane, size_t n) {
    const size_t host = r * row.bytes() + in_row;
    const size_t device = rows * in_plane + r * n;
    std::memcpy(to + (to_host ? host : device), from + (to_host ? device : host), n);
  };
  for (size_t r = 0; r < rows; ++r) {
    move(r, 0, 0, codes);
    move(r, codes, codes + rope, scales);
    move(r, codes + scales, codes, rope);
  }
}

}  // namespace

void CacheStore::grow(std::vector<std::byte*>& addresses, int n, size_t bytes) {
  const int missing = n - static_cast<int>(addresses.size());
  if (missing <= 0) {
    return;
  }
  const size_t stride = aligned(bytes);
  const DeviceBuffer& memory =
      memory_.emplace_back(device_, stride * static_cast<size_t>(missing), "cached rows of sequences");
  CUDA_CHECK(cudaMemsetAsync(memory.data(), 0, memory.size(), stream_));
  for (int i = 0; i < missing; ++i) {
    addresses.push_back(memory.data() + static_cast<size_t>(i) * stride);
  }
}

void CacheStore::reserve(int n_slots, int n_blocks) {
  device_.make_current();
  grow(slots_, n_slots, layout_.slot_bytes);
  grow(blocks_, n_blocks, layout_.block_bytes);
}

void CacheStore::copy_slot(int from, int to) {
  CUDA_CHECK(cudaMemcpyAsync(slots_[static_cast<size_t>(to)], slots_[static_cast<size_t>(from)], layout_.slot_bytes,
                             cudaMemcpyDeviceToDevice, stream_));
}

void CacheStore::copy_block(int from, int to) {
  CUDA_CHECK(cudaMemcpyAsync(blocks_[static_cast<size_t>(to)], blocks_[static_cast<size_t>(from)], layout_.block_bytes,
                             cudaMemcpyDeviceToDevice, stream_));
}

void CacheStore::translate_slot(std::span<const std::byte> from, std::span<std::byte> to, Direction direction) const {
  std::copy(from.begin(), from.end(), to.begin());
  if (layout_.options.kv_type != KvType::kPacked) {
    return;
  }
  const KvRowLayout row{layout_.head_dim - layout_.rope_dim, layout_.rope_dim};
  for (const LayerCache& layer : layout_.layers) {
    translate_kv(from.data() + layer.ring_offset, to.data() + layer.ring_offset, static_cast<size_t>(layout_.ring_rows),
                 row, direction == Direction::kToHost);
  }
}

void CacheStore::translate_block(std::span<const std::byte> from, std::span<std::byte> to, Direction direction) const {
  std::copy(from.begin(), from.end(), to.begin());
  if (layout_.options.kv_type != KvType::kPacked) {
    return;
  }
  const bool to_host = direction == Direction::kToHost;
  const KvRowLayout row{layout_.head_dim - layout_.rope_dim, layout_.rope_dim};
  const IndexRowLayout index{hadamard_size(layout_.index_dim)};
  const size_t index_parts[] = {index.scales_offset(), static_cast<size_t>(index.n_scales())};
  for (const LayerCache& layer : layout_.layers) {
    const auto rows = static_cast<size_t>(layer.rows_per_block);
    if (layer.ratio > 0) {
      translate_kv(from.data() + layer.kv_offset, to.data() + layer.kv_offset, rows, row, to_host);
    }
    if (layer.ratio == 4) {
      translate_region(from.data() + layer.index_offset, to.data() + layer.index_offset, rows, index_parts, to_host);
    }
  }
}

void CacheStore::read_slot(int slot, std::span<std::byte> out) const {
  FATHOM_CHECK(out.size() == layout_.slot_bytes, "a slot is read whole");
  std::vector<std::byte> raw(out.size());
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  CUDA_CHECK(cudaMemcpy(raw.data(), slots_[static_cast<size_t>(slot)], raw.size(), cudaMemcpyDeviceToHost));
  translate_slot(raw, out, Direction::kToHost);
}

void CacheStore::read_block(int block, std::span<std::byte> out) const {
  FATHOM_CHECK(out.size() == layout_.block_bytes, "a block is read whole");
  std::vector<std::byte> raw(out.size());
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  CUDA_CHECK(cudaMemcpy(raw.data(), blocks_[static_cast<size_t>(block)], raw.size(), cudaMemcpyDeviceToHost));
  translate_block(raw, out, Direction::kToHost);
}

void CacheStore::write_slot(int slot, std::span<const std::byte> in) {
  FATHOM_CHECK(in.size() == layout_.slot_bytes, "a slot is written whole");
  std::vector<std::byte> raw(in.size());
  translate_slot(in, raw, Direction::kToDevice);
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  CUDA_CHECK(cudaMemcpy(slots_[static_cast<size_t>(slot)], raw.data(), raw.size(), cudaMemcpyHostToDevice));
}

void CacheStore::write_block(int block, std::span<const std::byte> in) {
  FATHOM_CHECK(in.size() == layout_.block_bytes, "a block is written whole");
  std::vector<std::byte> raw(in.size());
  translate_block(in, raw, Direction::kToDevice);
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  CUDA_CHECK(cudaMemcpy(blocks_[static_cast<size_t>(block)], raw.data(), raw.size(), cudaMemcpyHostToDevice));
}

RowRegion CacheStore::ring(int layer) const {
  const LayerCache& l = layout_.layers[static_cast<size_t>(layer)];
  return {.offset = l.ring_offset,
          .rows = layout_.ring_rows,
          .dims = layout_.head_dim,
          .rope = layout_.rope_dim,
          .packed = layout_.options.kv_type == KvType::kPacked};
}

RowRegion CacheStore::entries(int layer) const {
  const LayerCache& l = layout_.layers[static_cast<size_t>(layer)];
  return {.offset = l.kv_offset,
          .rows = l.rows_per_block,
          .dims = layout_.head_dim,
          .rope = layout_.rope_dim,
          .packed = layout_.options.kv_type == KvType::kPacked};
}

RowRegion CacheStore::index(int layer) const {
  const LayerCache& l = layout_.layers[static_cast<size_t>(layer)];
  const bool packed = layout_.options.kv_type == KvType::kPacked;
  return {.offset = l.index_offset,
          .rows = l.rows_per_block,
          .dims = packed ? hadamard_size(layout_.index_dim) : layout_.index_dim,
          .rope = 0,
          .packed = packed};
}

}  // namespace fathom::cuda
