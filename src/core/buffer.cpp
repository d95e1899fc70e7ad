#include "core/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "core/error.h"

namespace fathom {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

HostBuffer::HostBuffer(size_t bytes, HugePages huge_pages) : size_(bytes) {
  if (bytes == 0) {
    return;
  }
  void* data = nullptr;
  if (::posix_memalign(&data, huge_pages == HugePages::kAdvise ? kHugePageBytes : kBufferAlignment, bytes) != 0) {
    throw Error(ErrorCode::kOutOfMemory, fmt::format("cannot allocate {} bytes of host memory", bytes));
  }
  data_.reset(static_cast<std::byte*>(data));
  if (huge_pages == HugePages::kAdvise) {
    ::madvise(data, bytes, MADV_HUGEPAGE);  // a kernel without huge pages refuses, and small pages do
  }
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void HostBuffer::Free::operator()(std::byte* data) const noexcept { std::free(data); }

}  // namespace fathom
