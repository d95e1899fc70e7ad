// Whole files as strings of bytes, and what a folder holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

namespace fathom::test {

[[nodiscard]] inline std::string read_file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

[[nodiscard]] inline size_t count_files(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// A view of `text`, which must outlive it.
[[nodiscard]] inline std::span<const std::byte> as_byte_span(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

}  // namespace fathom::test
