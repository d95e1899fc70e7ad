// RAII over the CUDA runtime: one device, its streams, events, graphs and memory. Everything belongs to a Device that
// is named explicitly; the runtime's current device is set by the calls that need it and never relied on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

namespace fathom::cuda {

// One GPU. Counts what is allocated on it and refuses what goes beyond `memory_limit`.
class Device {
 public:
  // Throws kUnsupported: no such device, or one older than compute capability 8.0. memory_limit 0: what is free now.
  Device(int index, size_t memory_limit);

  void make_current() const;

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] size_t allocated() const { return allocated_; }
  [[nodiscard]] size_t memory_limit() const { return memory_limit_; }

 private:
  friend class DeviceBuffer;
  int index_;
  int multiprocessors_ = 0;
  size_t memory_limit_ = 0;
  size_t allocated_ = 0;
};

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Throws kOutOfMemory; `purpose` is named in its text. The device must outlive the buffer.
  DeviceBuffer(Device& device, size_t bytes, std::string_view purpose);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] std::byte* data() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Page-locked host memory: copies from and to it run asynchronously.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(const Device& device, size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

namespace detail {
struct DestroyStream {
  void operator()(CUstream_st* stream) const noexcept { cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(CUevent_st* event) const noexcept { cudaEventDestroy(event); }
};
struct DestroyGraph {
  void operator()(CUgraphExec_st* graph) const noexcept { cudaGraphExecDestroy(graph); }
};
}  // namespace detail

using StreamHandle = std::unique_ptr<CUstream_st, detail::DestroyStream>;
using EventHandle = std::unique_ptr<CUevent_st, detail::DestroyEvent>;
using GraphHandle = std::unique_ptr<CUgraphExec_st, detail::DestroyGraph>;

[[nodiscard]] StreamHandle make_stream(const Device& device);
[[nodiscard]] EventHandle make_event(const Device& device);
// Ends the capture that is running on `stream` and makes it launchable.
[[nodiscard]] GraphHandle end_capture(cudaStream_t stream);

}  // namespace fathom::cuda
