#include "core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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

std::string folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// Makes the rename itself durable. Some file systems refuse to sync a directory; the file is complete either way.
void sync_directory(const std::string& path) {
  const int fd = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

// Renaming replaces whatever has the name: a link instead of its target, and a device if the user may.
std::string resolve_target(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT || path.empty()) {
      throw Error(ErrorCode::kIo, fmt::format("cannot create '{}': {}", path, std::generic_category().message(errno)));
    }
    return path;
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kIo, fmt::format("cannot create {}: it is a {}, expected a new name or a regular file", path,
                                            S_ISDIR(info.st_mode) ? "directory" : "device, pipe or socket"));
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

// How a file without a name gets one. Needs /proc.
std::string descriptor_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// -1 where the file system cannot, or the file could not be named later.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (fd >= 0 && ::access(descriptor_path(fd).c_str(), F_OK) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), target_(resolve_target(path_)) {
  fd_ = open_unnamed(folder_of(target_));
  if (fd_ >= 0) {
    return;
  }
  // Not mkstemp: the published file gets the permissions of the user's umask.
  const bool created = take_temporary_name([&](const char* name) {
    fd_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ >= 0;
  });
  if (!created) {
    fail("create");
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    if (!temporary_path_.empty()) {
      ::unlink(temporary_path_.c_str());
    }
  }
}

template <class Create>
bool AtomicFile::take_temporary_name(const Create& create) {
  for (int i = 0; i < kMaxNameAttempts; ++i) {
    // Not the target's name with an ending, which might be too long.
    const std::string name = fmt::format("{}/.fathom-{}-{}.tmp", folder_of(target_), ::getpid(), i);
    if (create(name.c_str())) {
      temporary_path_ = name;
      return true;
    }
    if (errno != EEXIST) {
      return false;
    }
  }
  return false;
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
  const std::string unnamed = descriptor_path(fd_);
  // A link cannot replace a file, so it gets a temporary name now.
  if (temporary_path_.empty() && !take_temporary_name([&](const char* name) {
        return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
      })) {
    fail("name");
  }
  if (::rename(temporary_path_.c_str(), target_.c_str()) != 0) {
    fail("rename the temporary file to");
  }
  ::close(fd_);
  fd_ = -1;
  sync_directory(target_);
}

void AtomicFile::fail(const char* what) const {
  const int code = errno;
  throw Error(ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, path_, std::generic_category().message(code)));
}

}  // namespace fathom
