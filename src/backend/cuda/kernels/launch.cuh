// Starts a kernel and checks that it could be started.
#pragma once

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

template <class... Params, class... Args>
void start(const Launch& launch, void (*kernel)(Params...), dim3 grid, int threads, size_t shared_bytes,
           Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return;
  }
  if (shared_bytes > 48 * 1024) {
    CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)));
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = launch.stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = launch.overlap ? 1 : 0;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, Params(args)...));
}

}  // namespace fathom::cuda
