#pragma once

#include <algorithm>

#include "core/buffer.h"

namespace fathom::cpu {

[[nodiscard]] inline HostBuffer zeroed_buffer(size_t bytes) {
  HostBuffer buffer(bytes);
  const auto all = buffer.bytes();
  std::fill(all.begin(), all.end(), std::byte{0});
  return buffer;
}

}  // namespace fathom::cpu
