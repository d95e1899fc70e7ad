// Where every byte of cached state lies, as plain arithmetic over the model's geometry. Two kinds of storage:
//
//   slot   what a sequence overwrites as it advances: per layer the window ring and the compressor states. One per
//          live sequence or snapshot; fixed size.
//   block  what a sequence only appends: compressed rows and index rows of `block_tokens` consecutive positions, of all
//          layers together. A sequence is a table of block ids, so growth never moves a row and prefixes can be shared.
//
// Rings are addressed by absolute position (position mod capacity), so nothing is shifted when a block of tokens
// completes, and stepping back by up to `rewind_rows` positions is only a smaller cursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model_config.h"

namespace fathom {

enum class KvType : uint8_t { kF32, kPacked };  // packed: the rows of core/packed_rows.h

struct CacheOptions {
  bool activation_sim = true;     // FP8 on KV rows, Hadamard + FP4 on index rows (docs/model.md 2.3, 2.4, 2.7)
  KvType kv_type = KvType::kF32;  // kPacked needs activation_sim: only then are the codes lossless
  int block_tokens = 256;         // positions per block; a multiple of 128
  int rewind_rows = 16;           // positions a sequence may step back without a snapshot
};

// One ring of float rows [value | gate] (2 * roles * width floats each).
struct CompressorState {
  int ratio = 0;
  int width = 0;      // of an emitted row: head_dim, or index_dim
  int roles = 0;      // 2 for ratio 4 (overlapping blocks), else 1
  int capacity = 0;   // rows in the ring: roles * ratio + rewind_rows
  size_t offset = 0;  // bytes from the start of the slot

  [[nodiscard]] size_t row_bytes() const { return 2 * static_cast<size_t>(roles) * static_cast<size_t>(width) * 4; }
  [[nodiscard]] size_t bytes() const { return row_bytes() * static_cast<size_t>(capacity); }
};

struct LayerCache {
  int ratio = 0;
  size_t ring_offset = 0;       // in the slot
  CompressorState state;        // ratio > 0
  CompressorState index_state;  // ratio 4
  int rows_per_block = 0;       // compressed (and index) rows in one block
  size_t kv_offset = 0;         // in the block
  size_t index_offset = 0;      // in the block; ratio 4
};

// Bytes by what they hold.
struct CacheBytes {
  size_t window = 0;      // ring rows
  size_t states = 0;      // compressor states
  size_t compressed = 0;  // compressed rows
  size_t index = 0;       // index rows
  size_t padding = 0;     // between regions

  [[nodiscard]] constexpr size_t total() const { return window + states + compressed + index + padding; }
};

struct CacheLayout {
  CacheOptions options;
  int head_dim = 0;
  int rope_dim = 0;
  int window = 0;
  int index_dim = 0;
  int context_length = 0;  // positions the model knows
  int ring_rows = 0;       // window + rewind_rows
  size_t kv_row_bytes = 0;
  size_t index_row_bytes = 0;
  std::vector<LayerCache> layers;  // in the model's order; every region starts at a multiple of 64 bytes
  size_t slot_bytes = 0;
  size_t block_bytes = 0;
  CacheBytes slot_parts;   // of slot_bytes
  CacheBytes block_parts;  // of block_bytes

  // Throws kUnsupported when the options contradict each other or the geometry is not one this engine handles.
  [[nodiscard]] static CacheLayout make(const ModelConfig& config, const CacheOptions& options);

  [[nodiscard]] constexpr int blocks_for(int n_tokens) const {
    return n_tokens / options.block_tokens + (n_tokens % options.block_tokens != 0 ? 1 : 0);
  }
  // What `n_sequences` slots and the blocks of as many contexts of `n_tokens` positions take. Throws kOutOfMemory when
  // no address space could hold it.
  [[nodiscard]] CacheBytes bytes_for(int n_tokens, int n_sequences) const;
};

// Compressed entries that a query at `position` sees: those whose last token is at or before it (docs/model.md 4.3).
[[nodiscard]] constexpr int visible_entries(int position, int ratio) { return ratio == 0 ? 0 : (position + 1) / ratio; }

}  // namespace fathom
