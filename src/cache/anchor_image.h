// What a sequence at one position still reads when it goes on, without the rest of its slot and blocks. Pure functions
// of the layout.
//
// Of the slot: the window before the position, and what the compressors have not yet pooled. At a multiple of 128 that
// is little, for the states of ratio-128 layers are empty. Of a block: the entries that are complete.
#pragma once

#include <cstddef>
#include <span>

#include "backend/cache_layout.h"

namespace fathom {

[[nodiscard]] size_t anchor_image_bytes(const CacheLayout& layout, int position);

// `slot` [slot_bytes] of a sequence from which `position` can be reached by a rewind -> `image` [anchor_image_bytes].
void pack_anchor_image(const CacheLayout& layout, int position, std::span<const std::byte> slot,
                       std::span<std::byte> image);

// The other way. Rows that are not in the image keep what they hold; a sequence at `position` does not read them.
void unpack_anchor_image(const CacheLayout& layout, int position, std::span<const std::byte> image,
                         std::span<std::byte> slot);

// Entries of the first `n_positions` positions of a block, in the same way.
[[nodiscard]] size_t packed_block_bytes(const CacheLayout& layout, int n_positions);
void pack_block(const CacheLayout& layout, int n_positions, std::span<const std::byte> block,
                std::span<std::byte> packed);
void unpack_block(const CacheLayout& layout, int n_positions, std::span<const std::byte> packed,
                  std::span<std::byte> block);

}  // namespace fathom
