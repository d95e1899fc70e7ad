// Texts that a mask allows, drawn at random.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"

namespace fathom::test {

inline bool may(const std::vector<uint64_t>& mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1U) != 0;
}

}  // namespace fathom::test
