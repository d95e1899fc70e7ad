#include "backend/cuda/make_cuda_ops.h"
#include "core/error.h"

namespace fathom {

std::unique_ptr<Ops> make_cuda_ops(const ModelConfig& /*config*/, const BackendOptions& /*options*/) {
  throw Error(ErrorCode::kUnsupported, "backend cuda: this build is without CUDA");
}

}  // namespace fathom
