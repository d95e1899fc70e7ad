// One safetensors file, mapped and checked when it is opened: every shape, dtype and byte range that is handed out is
// valid. Owns the mapping; all views live as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/file_map.h"

namespace fathom {

enum class SafetensorsDType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E8M0,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
};

struct SafetensorsDTypeInfo {
  SafetensorsDType dtype;
  std::string_view name;  // as in the file
  int n_bytes;
};

[[nodiscard]] const SafetensorsDTypeInfo& safetensors_dtype_info(SafetensorsDType dtype) noexcept;
[[nodiscard]] std::optional<SafetensorsDType> safetensors_dtype_from_name(std::string_view name) noexcept;

struct SafetensorsTensor {
  std::string name;
  SafetensorsDType dtype = SafetensorsDType::kF32;
  std::vector<uint64_t> shape;       // row-major, outermost first; empty for a scalar
  std::span<const std::byte> bytes;  // not aligned in general
};

[[nodiscard]] std::string shape_text(std::span<const uint64_t> shape);  // "[8, 64]"

class SafetensorsFile {
 public:
  // Throws kIo (cannot read), kBadModel (contradicts the format), kUnsupported (dtype).
  [[nodiscard]] static SafetensorsFile open(const std::string& path);
  // A file in memory that the caller keeps alive; `name` stands for the path in messages.
  [[nodiscard]] static SafetensorsFile parse(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::span<const SafetensorsTensor> tensors() const noexcept { return tensors_; }  // in header order
  [[nodiscard]] const SafetensorsTensor* find(std::string_view name) const noexcept;              // nullptr when absent

  // Gives back the memory of mapped bytes, which can be read again; does nothing for bytes of another file.
  void release(std::span<const std::byte> bytes) const { map_.release(bytes); }

 private:
  SafetensorsFile(FileMap map, std::span<const std::byte> bytes, std::string path);

  std::string path_;
  FileMap map_;
  std::vector<SafetensorsTensor> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace fathom
