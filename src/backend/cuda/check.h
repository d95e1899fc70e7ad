// CUDA_CHECK: turns a failed call of the CUDA runtime into an Error (kDevice, or kOutOfMemory for an allocation).
#pragma once

#include <cuda_runtime_api.h>

namespace fathom::cuda {

[[noreturn]] void throw_cuda_error(cudaError_t code, const char* expression, const char* file, int line);

}  // namespace fathom::cuda

#define CUDA_CHECK(expression)                                                            \
  do {                                                                                    \
    const cudaError_t cuda_check_code = (expression);                                     \
    if (cuda_check_code != cudaSuccess) {                                                 \
      ::fathom::cuda::throw_cuda_error(cuda_check_code, #expression, __FILE__, __LINE__); \
    }                                                                                     \
  } while (false)
