// The safetensors files of one model seen as one set of tensors. Owns the files; all views live as long as it does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "safetensors/safetensors_file.h"

namespace fathom {

class SafetensorsModel {
 public:
  // `path`: a file, or a directory with model.safetensors.index.json, else model.safetensors. Throws kIo, kBadModel
  // (also when index and files disagree), kUnsupported.
  [[nodiscard]] static SafetensorsModel open(const std::string& path);
  [[nodiscard]] static SafetensorsModel from_file(SafetensorsFile file);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::span<const SafetensorsFile> files() const noexcept { return files_; }

  struct Entry {
    const SafetensorsTensor* tensor;
    const SafetensorsFile* file;
  };
  [[nodiscard]] std::span<const Entry> tensors() const noexcept { return tensors_; }  // file by file
  [[nodiscard]] const Entry* find(std::string_view name) const noexcept;              // nullptr when absent

 private:
  SafetensorsModel(std::string path, std::vector<SafetensorsFile> files);

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<Entry> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace fathom
