// How much a weight holds.
#pragma once

#include <cstdint>

#include "core/weight.h"

namespace fathom {

[[nodiscard]] uint64_t weight_elements(const Weight& weight) noexcept;
// In the file, scales included.
[[nodiscard]] uint64_t weight_bytes(const Weight& weight) noexcept;

}  // namespace fathom
