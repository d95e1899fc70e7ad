#include "backend/cache_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/packed_rows.h"

namespace fathom {
namespace {

constexpr size_t kRegionAlign = 64;  // a cache line; more than any load needs
constexpr int kLargestRatio = 128;

std::optional<size_t> add(size_t a, size_t b) {
  return a <= std::numeric_limits<size_t>::max() - b ? std::optional(a + b) : std::nullopt;
}

std::optional<size_t> multiply(size_t a, size_t b) {
  return b == 0 || a <= std::numeric_limits<size_t>::max() / b ? std::optional(a * b) : std::nullopt;
}

[[noreturn]] void unsupported(const std::string& what) { throw Error(ErrorCode::kUnsupported, "cache: " + what); }

size_t require(std::optional<size_t> bytes) {
  if (!bytes) {
    unsupported("one slot or block exceeds the address space");
  }
  return *bytes;
}

// Lays regions one after another.
class Regions {
 public:
  // The offset of `rows` rows, which count as `part`.
  size_t take(int rows, size_t row_bytes, size_t CacheBytes::*part) {
    const size_t offset = parts_.total();
    const size_t bytes = require(multiply(static_cast<size_t>(rows), row_bytes));
    const size_t end = require(add(offset, require(add(bytes, kRegionAlign - 1)))) / kRegionAlign * kRegionAlign;
    parts_.*part += bytes;
    parts_.padding += end - offset - bytes;
    return offset;
  }

  [[nodiscard]] const CacheBytes& parts() const { return parts_; }

 private:
  CacheBytes parts_;
};

size_t kv_row_bytes(const ModelConfig& c, KvType type) {
  return type == KvType::kF32 ? static_cast<size_t>(c.head_dim) * sizeof(float)
                              : KvRowLayout{.nope = c.nope_dim(), .rope = c.rope_dim}.bytes();
}

size_t index_row_bytes(const ModelConfig& c, KvType type) {
  return type == KvType::kF32 ? static_cast<size_t>(c.index_dim) * sizeof(float)
                              : IndexRowLayout{.dims = c.index_dim}.bytes();
}

void check(const ModelConfig& c, const CacheOptions& o) {
  if (o.block_tokens <= 0 || o.block_tokens % kLargestRatio != 0) {
    unsupported(fmt::format("block_tokens is {}, expected a positive multiple of {}", o.block_tokens, kLargestRatio));
  }
  if (o.rewind_rows < 0) {
    unsupported(fmt::format("rewind_rows is {}, expected 0 or more", o.rewind_rows));
  }
  if (o.kv_type == KvType::kPacked && !o.activation_sim) {
    unsupported("packed rows lose nothing only with activation simulation on; use f32 rows without it");
  }
  if (c.window <= 0) {
    unsupported(fmt::format("attention window is {}, expected at least 1", c.window));
  }
  if (c.head_dim <= c.rope_dim) {
    unsupported(fmt::format("head_dim {} must exceed rope_dim {}", c.head_dim, c.rope_dim));
  }
  if (c.compress_ratios.size() != static_cast<size_t>(c.n_layers)) {
    unsupported(fmt::format("{} compression ratios for {} layers", c.compress_ratios.size(), c.n_layers));
  }
  for (int layer = 0; layer < c.n_layers; ++layer) {
    const int ratio = c.ratio(layer);
    if (ratio != 0 && ratio != 4 && ratio != kLargestRatio) {
      unsupported(fmt::format("layer {} has compression ratio {}, expected 0, 4 or {}", layer, ratio, kLargestRatio));
    }
    if (ratio == 4 && (c.index_dim <= 0 || !std::has_single_bit(static_cast<unsigned>(c.index_dim)))) {
      unsupported(fmt::format("index_dim is {}, expected a power of two", c.index_dim));
    }
  }
}

// Rows of a ring that must hold `needed` rows after a rewind.
int ring_capacity(int needed, int rewind_rows) {
  if (rewind_rows > std::numeric_limits<int>::max() - needed) {
    unsupported(fmt::format("a ring of {} + {} rows is too large", needed, rewind_rows));
  }
  return needed + rewind_rows;
}

CompressorState make_state(int ratio, int width, int rewind_rows, Regions& slot) {
  CompressorState state;
  state.ratio = ratio;
  state.width = width;
  state.roles = compressor_roles(ratio);
  state.capacity = ring_capacity(state.roles * ratio, rewind_rows);
  state.offset = slot.take(state.capacity, state.row_bytes(), &CacheBytes::states);
  return state;
}

}  // namespace

CacheLayout CacheLayout::make(const ModelConfig& config, const CacheOptions& options) {
  check(config, options);
  CacheLayout layout;
  layout.options = options;
  layout.head_dim = config.head_dim;
  layout.rope_dim = config.rope_dim;
  layout.window = config.window;
  layout.index_dim = config.index_dim;
  layout.context_length = config.context_length;
  layout.ring_rows = ring_capacity(config.window, options.rewind_rows);
  layout.kv_row_bytes = fathom::kv_row_bytes(config, options.kv_type);
  layout.index_row_bytes = fathom::index_row_bytes(config, options.kv_type);

  Regions slot;
  Regions block;
  for (const int ratio : config.compress_ratios) {
    LayerCache layer;
    layer.ratio = ratio;
    layer.ring_offset = slot.take(layout.ring_rows, layout.kv_row_bytes, &CacheBytes::window);
    if (ratio > 0) {
      layer.state = make_state(ratio, config.head_dim, options.rewind_rows, slot);
      layer.rows_per_block = options.block_tokens / ratio;
      layer.kv_offset = block.take(layer.rows_per_block, layout.kv_row_bytes, &CacheBytes::compressed);
    }
    if (ratio == 4) {
      layer.index_state = make_state(ratio, config.index_dim, options.rewind_rows, slot);
      layer.index_offset = block.take(layer.rows_per_block, layout.index_row_bytes, &CacheBytes::index);
    }
    layout.layers.push_back(layer);
  }
  layout.slot_parts = slot.parts();
  layout.block_parts = block.parts();
  layout.slot_bytes = slot.parts().total();
  layout.block_bytes = block.parts().total();
  return layout;
}

CacheBytes CacheLayout::bytes_for(int n_tokens, int n_sequences) const {
  const auto slots = static_cast<size_t>(std::max(n_sequences, 0));
  const size_t blocks = slots * static_cast<size_t>(blocks_for(std::max(n_tokens, 0)));  // both below 2^31
  const std::optional<size_t> slot_total = multiply(slots, slot_bytes);
  const std::optional<size_t> block_total = multiply(blocks, block_bytes);
  if (!slot_total || !block_total || !add(*slot_total, *block_total)) {
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("cache: {} contexts of {} positions exceed the address space", n_sequences, n_tokens));
  }
  return {.window = slots * slot_parts.window,
          .states = slots * slot_parts.states,
          .compressed = blocks * block_parts.compressed,
          .index = blocks * block_parts.index,
          .padding = slots * slot_parts.padding + blocks * block_parts.padding};
}

}  // namespace fathom
