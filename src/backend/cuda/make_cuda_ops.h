// The CUDA backend, or an error that says why this build has none.
#pragma once

#include <memory>

#include "backend/ops.h"

namespace fathom {

// Throws kUnsupported: built without CUDA, no such device, a device that is too old.
[[nodiscard]] std::unique_ptr<Ops> make_cuda_ops(const ModelConfig& config, const BackendOptions& options);

}  // namespace fathom
