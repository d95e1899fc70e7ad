// A file that appears under its name complete or not at all. Owns the descriptor and the temporary file beside the
// target, which is removed unless commit() succeeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fathom {

class AtomicFile {
 public:
  // Creates the temporary file in the folder of `path`. Throws kIo.
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
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace fathom
