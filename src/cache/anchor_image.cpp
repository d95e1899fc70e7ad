#include "cache/anchor_image.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace fathom {
namespace {

// Calls visit(offset in the slot, bytes) for the ring rows of positions [first, end): at most two stretches.
template <class Visit>
void visit_ring(size_t offset, int capacity, size_t row_bytes, int first, int end, const Visit& visit) {
  for (int position = std::max(first, 0); position < end;) {
    const int row = position % capacity;
    const int n = std::min(end - position, capacity - row);
    visit(offset + static_cast<size_t>(row) * row_bytes, static_cast<size_t>(n) * row_bytes);
    position += n;
  }
}

// Rows of the block of tokens that is not complete, and of the one before it where blocks overlap.
template <class Visit>
void visit_state(const CompressorState& state, int position, const Visit& visit) {
  const int first = position - position % state.ratio - (state.roles - 1) * state.ratio;
  visit_ring(state.offset, state.capacity, state.row_bytes(), first, position, visit);
}

template <class Visit>
void visit_rows(const CacheLayout& layout, int position, const Visit& visit) {
  for (const LayerCache& layer : layout.layers) {
    // A query sees `window` rows, its own included.
    visit_ring(layer.ring_offset, layout.ring_rows, layout.kv_row_bytes, position - layout.window + 1, position, visit);
    if (layer.ratio > 0) {
      visit_state(layer.state, position, visit);
    }
    if (layer.ratio == 4) {
      visit_state(layer.index_state, position, visit);
    }
  }
}

template <class Visit>
void visit_entries(const CacheLayout& layout, int n_positions, const Visit& visit) {
  for (const LayerCache& layer : layout.layers) {
    if (layer.ratio > 0) {
      visit(layer.kv_offset, static_cast<size_t>(n_positions / layer.ratio) * layout.kv_row_bytes);
    }
    if (layer.ratio == 4) {
      visit(layer.index_offset, static_cast<size_t>(n_positions / 4) * layout.index_row_bytes);
    }
  }
}

}  // namespace

size_t anchor_image_bytes(const CacheLayout& layout, int position) {
  size_t total = 0;
  visit_rows(layout, position, [&](size_t, size_t bytes) { total += bytes; });
  return total;
}

void pack_anchor_image(const CacheLayout& layout, int position, std::span<const std::byte> slot,
                       std::span<std::byte> image) {
  FATHOM_CHECK(slot.size() == layout.slot_bytes && image.size() == anchor_image_bytes(layout, position),
               "an anchor's image is that of a whole slot");
  std::byte* to = image.data();
  visit_rows(layout, position, [&](size_t offset, size_t bytes) {
    std::memcpy(to, slot.data() + offset, bytes);
    to += bytes;
  });
}

void unpack_anchor_image(const CacheLayout& layout, int position, std::span<const std::byte> image,
                         std::span<std::byte> slot) {
  FATHOM_CHECK(slot.size() == layout.slot_bytes && image.size() == anchor_image_bytes(layout, position),
               "an anchor's image is that of a whole slot");
  const std::byte* from = image.data();
  visit_rows(layout, position, [&](size_t offset, size_t bytes) {
    std::memcpy(slot.data() + offset, from, bytes);
    from += bytes;
  });
}

size_t packed_block_bytes(const CacheLayout& layout, int n_positions) {
  size_t total = 0;
  visit_entries(layout, n_positions, [&](size_t, size_t bytes) { total += bytes; });
  return total;
}

void pack_block(const CacheLayout& layout, int n_positions, std::span<const std::byte> block,
                std::span<std::byte> packed) {
  FATHOM_CHECK(block.size() == layout.block_bytes && packed.size() == packed_block_bytes(layout, n_positions),
               "blocks are packed whole");
  std::byte* to = packed.data();
  visit_entries(layout, n_positions, [&](size_t offset, size_t bytes) {
    std::memcpy(to, block.data() + offset, bytes);
    to += bytes;
  });
}

void unpack_block(const CacheLayout& layout, int n_positions, std::span<const std::byte> packed,
                  std::span<std::byte> block) {
  FATHOM_CHECK(block.size() == layout.block_bytes && packed.size() == packed_block_bytes(layout, n_positions),
               "blocks are packed whole");
  const std::byte* from = packed.data();
  visit_entries(layout, n_positions, [&](size_t offset, size_t bytes) {
    std::memcpy(block.data() + offset, from, bytes);
    from += bytes;
  });
}

}  // namespace fathom
