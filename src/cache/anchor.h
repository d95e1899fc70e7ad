// A place in the past of a sequence from which any sequence of the same pool can go on: the packed rows of its slot in
// host memory (anchor_image.h), and the blocks kept alive. Unlike a Snapshot it takes no slot, so there may be many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "cache/cache_handles.h"
#include "core/buffer.h"

namespace fathom {

class Anchor {
 public:
  // `image` as pack_anchor_image() makes it for `position`, `blocks` those of [0, position).
  Anchor(int position, HostBuffer image, BlockTable blocks)
      : position_(position), image_(std::move(image)), blocks_(std::move(blocks)) {}

  [[nodiscard]] int position() const { return position_; }
  [[nodiscard]] std::span<const std::byte> image() const { return image_.bytes(); }
  [[nodiscard]] const BlockTable& blocks() const { return blocks_; }

 private:
  int position_;
  HostBuffer image_;
  BlockTable blocks_;
};

}  // namespace fathom
