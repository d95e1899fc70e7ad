#pragma once

#include <string>

#include "backend/ops.h"

namespace fathom {

// What decides about the bits of results besides the model and the form of cached rows: backends with the same text
// compute the same. Throws kUnsupported as make_ops() does.
[[nodiscard]] std::string numerics_of(const BackendOptions& options);

}  // namespace fathom
