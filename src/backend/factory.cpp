#include <fmt/format.h>

#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/make_cuda_ops.h"
#include "backend/ops.h"
#include "backend/reference/reference_ops.h"
#include "core/error.h"

namespace fathom {

std::unique_ptr<Ops> make_ops(const ModelConfig& config, const BackendOptions& options) {
  switch (options.kind) {
    case BackendKind::kReference:
      return std::make_unique<reference::ReferenceOps>(config, options);
    case BackendKind::kAuto:
    case BackendKind::kCpu:
      return std::make_unique<cpu::CpuOps>(config, options);
    case BackendKind::kCuda:
      return make_cuda_ops(config, options);
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("backend {}: not in this build", backend_name(options.kind)));
}

std::string_view backend_name(BackendKind kind) noexcept {
  switch (kind) {
    case BackendKind::kAuto:
      return "auto";
    case BackendKind::kReference:
      return "reference";
    case BackendKind::kCpu:
      return "cpu";
    case BackendKind::kCuda:
      return "cuda";
  }
  return "?";
}

}  // namespace fathom
