#include "backend/cuda/device.h"

#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "core/error.h"

namespace fathom::cuda {

void throw_cuda_error(cudaError_t code, const char* expression, const char* file, int line) {
  cudaGetLastError();  // an error that is not sticky must not surface again at the next, innocent call
  throw Error(ErrorCode::kDevice, fmt::format("cuda: {} ({}) in {} at {}:{}", cudaGetErrorString(code),
                                              cudaGetErrorName(code), expression, file, line));
}

Device::Device(int index, size_t memory_limit) : index_(index) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    throw Error(ErrorCode::kUnsupported, fmt::format("backend cuda: no usable GPU ({})", cudaGetErrorString(code)));
  }
  if (index < 0 || index >= count) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("backend cuda: device {} does not exist, this machine has {}", index, count));
  }
  make_current();
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  if (properties.major < 8) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("backend cuda: device {} ({}) has compute capability {}.{}, expected 8.0 or newer", index,
                            properties.name, properties.major, properties.minor));
  }
  multiprocessors_ = properties.multiProcessorCount;
  size_t free = 0;
  size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  memory_limit_ = memory_limit > 0 ? memory_limit : free;
}

void Device::make_current() const { CUDA_CHECK(cudaSetDevice(index_)); }

DeviceBuffer::DeviceBuffer(Device& device, size_t bytes, std::string_view purpose) : device_(&device), bytes_(bytes) {
  if (bytes == 0) {
    return;
  }
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const auto refuse = [&](const char* why) {
    device_ = nullptr;
    throw Error(
        ErrorCode::kOutOfMemory,
        fmt::format("cuda device {}: {:.2f} GiB for {} do not fit, {:.2f} of {:.2f} GiB are in use{}", device.index_,
                    static_cast<double>(bytes) / kGiB, purpose, static_cast<double>(device.allocated_) / kGiB,
                    static_cast<double>(device.memory_limit_) / kGiB, why));
  };
  if (bytes > device.memory_limit_ - device.allocated_) {
    refuse("");
  }
  device.make_current();
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    refuse(" (and the device has less)");
  }
  CUDA_CHECK(code);
  data_ = static_cast<std::byte*>(memory);
  device.allocated_ += bytes;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) {
    cudaFree(data_);
    device_->allocated_ -= bytes_;
  }
}

PinnedBuffer::PinnedBuffer(const Device& device, size_t bytes) : bytes_(bytes) {
  device.make_current();
  void* memory = nullptr;
  CUDA_CHECK(cudaMallocHost(&memory, bytes));
  data_ = static_cast<std::byte*>(memory);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) {
    cudaFreeHost(data_);
  }
}

StreamHandle make_stream(const Device& device) {
  device.make_current();
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return StreamHandle(stream);
}

EventHandle make_event(const Device& device) {
  device.make_current();
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreate(&event));
  return EventHandle(event);
}

GraphHandle end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  CUDA_CHECK(code);
  return GraphHandle(exec);
}

}  // namespace fathom::cuda
