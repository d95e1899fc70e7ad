// The rows of a slot that a sequence at one position still reads when it goes on, one after the other: the window
// before it, and what its compressors have not yet pooled. Much less than a slot: at a multiple of 128 the states of
// ratio-128 layers are empty. Pure functions of the layout.
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

}  // namespace fathom
