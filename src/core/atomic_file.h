// A file that appears under its name complete or not at all, however the process ends. Owns the descriptor. Until
// commit() the file has no name, so that the kernel removes it with the process; where the file system cannot do that,
// it has a temporary name beside the target, and only a signal can leave it there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fathom {

class AtomicFile {
 public:
  // Creates the file in the folder of `path`; a symbolic link is followed. Throws kIo, also when `path` is there and no
  // regular file.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);  // appends; throws kIo
  // Flushes to disk, then renames over `path`. Throws kIo; nothing may be written afterwards.
  void commit();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] uint64_t size() const noexcept { return size_; }

 private:
  // Tries names beside the target until `create` succeeds with one; false with errno when it fails.
  template <class Create>
  bool take_temporary_name(const Create& create);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string target_;          // path_ without symbolic links
  std::string temporary_path_;  // empty while the file has no name
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace fathom
