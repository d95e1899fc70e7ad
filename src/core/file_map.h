// A regular file mapped read-only. Pages are read from disk when first touched, so opening a large model costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fathom {

// Owns the mapping; views of it live as long as the FileMap, which keeps its address when moved. A file that is
// truncated by someone else while mapped sends SIGBUS to whoever reads a lost page: the kernel offers no softer failure
// (cli/process_guard.h turns it into a message).
class FileMap {
 public:
  // What the kernel should expect of a range; hints only, they change no result.
  enum class Advice : uint8_t { kNormal, kSequential, kRandom, kWillNeed, kDontNeed };

  FileMap() = default;
  // Throws Error: kIo when the file cannot be opened, is not a regular file, or cannot be mapped.
  explicit FileMap(const std::string& path);
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Hints for `part`, a part of bytes(); it is widened to whole pages, except that kDontNeed takes only whole pages
  // inside.
  void advise(Advice advice, std::span<const std::byte> part) const;
  void advise(Advice advice) const { advise(advice, bytes()); }

  // Gives back the memory of `part`, which is read from the file again when it is touched; bytes that are not of this
  // map are left alone.
  void release(std::span<const std::byte> part) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fathom
