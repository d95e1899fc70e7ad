// Integer tables looked up by token id (which experts a token goes to).
#pragma once

#include <cstdint>
#include <vector>

#include "core/weight.h"

namespace fathom {

// The table [out_dim, in_dim] of an I32 or I64 weight, row-major. Throws kBadModel naming the first value outside
// [0, limit).
[[nodiscard]] std::vector<int32_t> read_id_table(const Weight& weight, int limit);

}  // namespace fathom
