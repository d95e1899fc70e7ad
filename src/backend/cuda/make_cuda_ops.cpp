#include "backend/cuda/make_cuda_ops.h"

#include "backend/cuda/cuda_ops.h"

namespace fathom {

std::unique_ptr<Ops> make_cuda_ops(const ModelConfig& config, const BackendOptions& options) {
  return std::make_unique<cuda::CudaOps>(config, options);
}

}  // namespace fathom
