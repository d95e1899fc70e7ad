#include "toy_model.h"

#include <algorithm>
#include <cstring>

namespace fathom {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

// What the model would store of one token in one layer.
uint64_t row_hash(int layer, int position, TokenId token) {
  return mix(mix(mix(1, static_cast<uint64_t>(layer)), static_cast<uint64_t>(position)), static_cast<uint64_t>(token));
}

int first_pooled(int entry, int ratio) { return std::max(0, (entry - compressor_roles(ratio) + 1) * ratio); }

uint64_t load(std::span<const std::byte> bytes, size_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

void store(std::span<std::byte> bytes, size_t offset, uint64_t value) {
  std::memcpy(bytes.subspan(offset, sizeof value).data(), &value, sizeof value);
}

size_t ring_offset(size_t base, int position, int capacity, size_t row_bytes) {
  return base + static_cast<size_t>(position % capacity) * row_bytes;
}

// One layer of one sequence of the step.
class ToyLayer {
 public:
  ToyLayer(FakeOps& ops, int layer, const SequenceSlice& slice, std::span<const TokenId> tokens)
      : ops_(ops),
        layout_(ops.cache_layout()),
        cache_(layout_.layers[static_cast<size_t>(layer)]),
        layer_(layer),
        slice_(slice),
        tokens_(tokens),
        slot_(ops.slot(slice.slot)) {}

  void run(std::span<uint64_t> outputs) {
    if (cache_.ratio > 0) {
      compress(cache_.state, cache_.kv_offset, layout_.kv_row_bytes);
    }
    if (cache_.ratio == 4) {
      compress(cache_.index_state, cache_.index_offset, layout_.index_row_bytes);
    }
    for (int i = 0; i < slice_.n_rows; ++i) {
      uint64_t& out = outputs[static_cast<size_t>(i)];
      out = mix(out, attend(slice_.start + i));
    }
    for (int i = std::max(0, slice_.n_rows - layout_.ring_rows); i < slice_.n_rows; ++i) {
      const int t = slice_.start + i;
      store(slot_, ring_offset(cache_.ring_offset, t, layout_.ring_rows, layout_.kv_row_bytes), own_row(t));
    }
  }

 private:
  [[nodiscard]] uint64_t own_row(int position) const {
    return row_hash(layer_, position, tokens_[static_cast<size_t>(position - slice_.start)]);
  }

  // A row of the past from a ring, or one of this step.
  [[nodiscard]] uint64_t row(int position, size_t ring, int capacity, size_t row_bytes) const {
    return position < slice_.start ? load(slot_, ring_offset(ring, position, capacity, row_bytes)) : own_row(position);
  }

  [[nodiscard]] std::span<std::byte> block_of(int entry) const {
    return ops_.block(slice_.blocks[static_cast<size_t>(entry / cache_.rows_per_block)]);
  }

  [[nodiscard]] size_t entry_offset(int entry, size_t base, size_t row_bytes) const {
    return base + static_cast<size_t>(entry % cache_.rows_per_block) * row_bytes;
  }

  void compress(const CompressorState& state, size_t base, size_t row_bytes) {
    const int end = slice_.start + slice_.n_rows;
    for (int entry = slice_.start / state.ratio; entry < end / state.ratio; ++entry) {
      uint64_t pooled = 2;
      for (int t = first_pooled(entry, state.ratio); t < (entry + 1) * state.ratio; ++t) {
        pooled = mix(pooled, row(t, state.offset, state.capacity, state.row_bytes()));
      }
      store(block_of(entry), entry_offset(entry, base, row_bytes), pooled);
    }
    for (int t = std::max(slice_.start, end - state.capacity); t < end; ++t) {
      store(slot_, ring_offset(state.offset, t, state.capacity, state.row_bytes()), own_row(t));
    }
  }

  [[nodiscard]] uint64_t attend(int position) const {
    uint64_t seen = 3;
    for (int t = std::max(0, position - layout_.window + 1); t <= position; ++t) {
      seen = mix(seen, row(t, cache_.ring_offset, layout_.ring_rows, layout_.kv_row_bytes));
    }
    for (int entry = 0; entry < visible_entries(position, cache_.ratio); ++entry) {
      const std::span<std::byte> block = block_of(entry);
      seen = mix(seen, load(block, entry_offset(entry, cache_.kv_offset, layout_.kv_row_bytes)));
      if (cache_.ratio == 4) {
        seen = mix(seen, load(block, entry_offset(entry, cache_.index_offset, layout_.index_row_bytes)));
      }
    }
    return seen;
  }

  FakeOps& ops_;
  const CacheLayout& layout_;
  const LayerCache& cache_;
  int layer_;
  const SequenceSlice& slice_;
  std::span<const TokenId> tokens_;
  std::span<std::byte> slot_;
};

}  // namespace

ModelConfig toy_config() {
  ModelConfig c;
  c.n_layers = 4;
  c.head_dim = 2;
  c.rope_dim = 0;
  c.window = 11;
  c.index_dim = 2;
  c.context_length = 4096;
  c.compress_ratios = {0, 4, 128, 4};
  return c;
}

std::vector<uint64_t> run_toy_step(FakeOps& ops, std::span<const SequenceSlice> slices,
                                   std::span<const TokenId> tokens) {
  std::vector<uint64_t> outputs(tokens.size(), 0);
  for (int layer = 0; layer < static_cast<int>(ops.cache_layout().layers.size()); ++layer) {
    for (const SequenceSlice& slice : slices) {
      const auto first = static_cast<size_t>(slice.first_row);
      const auto n = static_cast<size_t>(slice.n_rows);
      ToyLayer(ops, layer, slice, tokens.subspan(first, n)).run(std::span(outputs).subspan(first, n));
    }
  }
  return outputs;
}

std::vector<uint64_t> expected_outputs(const CacheLayout& layout, std::span<const TokenId> tokens, int first) {
  const int n = static_cast<int>(tokens.size());
  std::vector<uint64_t> outputs(static_cast<size_t>(n - first), 0);
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    const int ratio = layout.layers[static_cast<size_t>(layer)].ratio;
    const auto row = [&](int t) { return row_hash(layer, t, tokens[static_cast<size_t>(t)]); };
    std::vector<uint64_t> entries;
    for (int entry = 0; ratio > 0 && entry < n / ratio; ++entry) {
      uint64_t pooled = 2;
      for (int t = first_pooled(entry, ratio); t < (entry + 1) * ratio; ++t) {
        pooled = mix(pooled, row(t));
      }
      entries.push_back(pooled);
    }
    for (int position = first; position < n; ++position) {
      uint64_t seen = 3;
      for (int t = std::max(0, position - layout.window + 1); t <= position; ++t) {
        seen = mix(seen, row(t));
      }
      for (int entry = 0; entry < visible_entries(position, ratio); ++entry) {
        for (int copies = ratio == 4 ? 2 : 1; copies > 0; --copies) {
          seen = mix(seen, entries[static_cast<size_t>(entry)]);
        }
      }
      uint64_t& out = outputs[static_cast<size_t>(position - first)];
      out = mix(out, seen);
    }
  }
  return outputs;
}

}  // namespace fathom
