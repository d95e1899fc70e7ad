// The bytes of all slots and blocks, and where the rows in them lie. Owns them; they never move.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cache_layout.h"
#include "backend/step_batch.h"
#include "core/buffer.h"

namespace fathom::cpu {

class CacheStore {
 public:
  explicit CacheStore(CacheLayout layout);

  [[nodiscard]] const CacheLayout& layout() const { return layout_; }
  [[nodiscard]] const LayerCache& layer(int i) const { return layout_.layers[static_cast<size_t>(i)]; }

  void reserve(int n_slots, int n_blocks);
  void copy_slot(int from, int to);
  void copy_block(int from, int to);
  void read_slot(int slot, std::span<std::byte> out) const;
  void read_block(int block, std::span<std::byte> out) const;
  void write_slot(int slot, std::span<const std::byte> in);
  void write_block(int block, std::span<const std::byte> in);

  // The window row of a position.
  [[nodiscard]] std::byte* ring_row(const SequenceSlice& sequence, const LayerCache& layer, int position) {
    const auto row = static_cast<size_t>(position % layout_.ring_rows);
    return slot(sequence) + layer.ring_offset + row * layout_.kv_row_bytes;
  }
  // [value | gate] of a position in a compressor's state.
  [[nodiscard]] float* state_row(const SequenceSlice& sequence, const CompressorState& state, int position) {
    const auto row = static_cast<size_t>(position % state.capacity);
    return reinterpret_cast<float*>(slot(sequence) + state.offset + row * state.row_bytes());
  }
  // Compressed entry `c`; entries of one block follow each other.
  [[nodiscard]] std::byte* kv_entry(const SequenceSlice& sequence, const LayerCache& layer, int c) {
    return block(sequence, layer, c) + layer.kv_offset +
           static_cast<size_t>(c % layer.rows_per_block) * layout_.kv_row_bytes;
  }
  [[nodiscard]] std::byte* index_entry(const SequenceSlice& sequence, const LayerCache& layer, int c) {
    return block(sequence, layer, c) + layer.index_offset +
           static_cast<size_t>(c % layer.rows_per_block) * layout_.index_row_bytes;
  }

 private:
  [[nodiscard]] std::byte* slot(const SequenceSlice& sequence) {
    return slots_[static_cast<size_t>(sequence.slot)].bytes().data();
  }
  [[nodiscard]] std::byte* block(const SequenceSlice& sequence, const LayerCache& layer, int c) {
    const int32_t id = sequence.blocks[static_cast<size_t>(c / layer.rows_per_block)];
    return blocks_[static_cast<size_t>(id)].bytes().data();
  }

  CacheLayout layout_;
  std::vector<HostBuffer> slots_;
  std::vector<HostBuffer> blocks_;
};

}  // namespace fathom::cpu
