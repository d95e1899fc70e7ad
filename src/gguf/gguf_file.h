// A GGUF file (version 2 or 3, little endian), whole or split into parts, mapped and checked when it is opened: every
// name, type, shape and byte range that is handed out is valid. Owns the mappings; all views live as long as it does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "core/file_map.h"
#include "gguf/gguf_value.h"

namespace fathom {

struct GgufTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  int n_dims = 0;                               // 1 to 4
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // ggml order: dims[0] is contiguous
  std::span<const std::byte> bytes;             // aligned to the file's general.alignment
};

class GgufFile {
 public:
  // Maps a file, or all parts of a split given its first (-00001-of-0000N.gguf). Throws kIo (cannot read), kBadModel
  // (contradicts the format), kUnsupported (version, byte order, tensor type, nested arrays).
  [[nodiscard]] static GgufFile open(const std::string& path);
  // A whole file in memory that the caller keeps alive; `name` stands for the path in messages.
  [[nodiscard]] static GgufFile parse(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const std::string& path() const noexcept { return parts_.front()->name; }
  [[nodiscard]] size_t n_parts() const noexcept { return parts_.size(); }

  [[nodiscard]] std::span<const GgufTensor> tensors() const noexcept { return tensors_; }  // in file order
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const noexcept;       // nullptr when absent

  [[nodiscard]] std::span<const GgufValue> metadata() const noexcept { return metadata_; }  // in file order
  [[nodiscard]] const GgufValue* find(std::string_view key) const noexcept;                 // nullptr when absent
  [[nodiscard]] const GgufValue& at(std::string_view key) const;  // throws kBadModel when absent

  // Gives back the memory of mapped bytes, which can be read again.
  void release(std::span<const std::byte> bytes) const {
    for (const auto& part : parts_) {
      part->map.release(bytes);
    }
  }

 private:
  struct Part {
    std::string name;
    FileMap map;
  };

  GgufFile() = default;
  // Parses one part and appends its tensors; the first part's metadata is the file's.
  void add_part(std::string name, FileMap map, std::span<const std::byte> bytes);
  void open_other_parts();

  std::vector<std::unique_ptr<Part>> parts_;  // by pointer: values refer to the names
  std::vector<GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> metadata_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace fathom
