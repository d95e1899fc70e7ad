#include "core/file_map.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace fathom {
namespace {

class FileDescriptor {
 public:
  // Opening a pipe that nobody writes to would wait for ever.
  explicit FileDescriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~FileDescriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void throw_errno(const std::string& path, const char* what) {
  const std::error_code error(errno, std::generic_category());
  throw Error(ErrorCode::kIo, fmt::format("{}: {}: {}", path, what, error.message()));
}

int madvise_value(FileMap::Advice advice) {
  switch (advice) {
    case FileMap::Advice::kNormal:
      return MADV_NORMAL;
    case FileMap::Advice::kSequential:
      return MADV_SEQUENTIAL;
    case FileMap::Advice::kRandom:
      return MADV_RANDOM;
    case FileMap::Advice::kWillNeed:
      return MADV_WILLNEED;
    case FileMap::Advice::kDontNeed:
      return MADV_DONTNEED;
  }
  return MADV_NORMAL;
}

}  // namespace

FileMap::FileMap(const std::string& path) : path_(path) {
  const FileDescriptor file(path);
  if (file.get() < 0) {
    throw_errno(path, "cannot open");
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) {
    throw_errno(path, "cannot read its size");
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kIo, fmt::format("{}: not a regular file", path));
  }
  if (info.st_size == 0) {
    return;  // an empty range cannot be mapped
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    throw_errno(path, "cannot map");
  }
  data_ = static_cast<const std::byte*>(address);
  size_ = size;
}

FileMap::~FileMap() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

FileMap::FileMap(FileMap&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void FileMap::release(std::span<const std::byte> part) const {
  if (data_ != nullptr && part.data() >= data_ && part.data() + part.size() <= data_ + size_) {
    advise(Advice::kDontNeed, part);
  }
}

void FileMap::advise(Advice advice, std::span<const std::byte> part) const {
  if (part.empty()) {
    return;
  }
  FATHOM_CHECK(part.data() >= data_ && part.data() + part.size() <= data_ + size_, "advice for bytes outside the map");
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto first = static_cast<size_t>(part.data() - data_);
  size_t last = first + part.size();
  if (advice == Advice::kDontNeed) {
    first = (first + page - 1) / page * page;
    last = last == size_ ? last : last / page * page;
  } else {
    first = first / page * page;
  }
  if (first < last) {
    ::madvise(const_cast<std::byte*>(data_) + first, last - first, madvise_value(advice));
  }
}

}  // namespace fathom
