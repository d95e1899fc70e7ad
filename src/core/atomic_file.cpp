#include "core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace fathom {
namespace {

// Two processes may write the same target, and a killed one may have left its file behind.
constexpr int kMaxNameAttempts = 100;
// Linux moves at most 2 GiB less a page per call, whatever is asked.
constexpr size_t kMaxWriteBytes = size_t{1} << 30;

// Makes the rename itself durable. Some file systems refuse to sync a directory; the file is complete either way.
void sync_directory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  for (int i = 0; i < kMaxNameAttempts && fd_ < 0; ++i) {
    temporary_path_ = fmt::format("{}.{}.{}.tmp", path_, ::getpid(), i);
    // Not mkstemp: the published file gets the permissions of the user's umask.
    fd_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) {
      fail("create");
    }
  }
  if (fd_ < 0) {
    fail("create");
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(temporary_path_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  FATHOM_CHECK(fd_ >= 0, "written after commit");
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes));
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail("write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    size_ += static_cast<uint64_t>(written);
  }
}

void AtomicFile::commit() {
  FATHOM_CHECK(fd_ >= 0, "committed twice");
  if (::fsync(fd_) != 0) {
    fail("flush");
  }
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    fail("rename the temporary file to");
  }
  ::close(fd_);
  fd_ = -1;
  sync_directory(path_);
}

void AtomicFile::fail(const char* what) const {
  const int code = errno;
  throw Error(ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, path_, std::generic_category().message(code)));
}

}  // namespace fathom
