// Host memory for activations, caches and repacked weights: aligned for every SIMD load, never initialised, so that the
// thread that first writes a page decides where it lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace fathom {

inline constexpr size_t kBufferAlignment = 64;  // a cache line, and the widest vector

// What may be read from and written to raw bytes.
template <class T>
concept BufferElement = std::is_trivially_copyable_v<T> && alignof(T) <= kBufferAlignment;

// Owns its bytes.
class HostBuffer {
 public:
  // kAdvise asks the kernel for 2 MiB pages: worth it for buffers of many megabytes that are read at random or at
  // speed.
  enum class HugePages : uint8_t { kNo, kAdvise };

  HostBuffer() = default;
  // Throws Error: kOutOfMemory.
  explicit HostBuffer(size_t bytes, HugePages huge_pages = HugePages::kNo);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer() = default;

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

  // The buffer as elements of T; a remainder too short for one is left out.
  template <BufferElement T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(data_.get()), size_ / sizeof(T)};
  }
  template <BufferElement T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_.get()), size_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };

  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

}  // namespace fathom
