#include "gguf/gguf_file.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "gguf/gguf_parse.h"

namespace fathom {
namespace {

constexpr const char* kSplitIndexKey = "split.no";
constexpr const char* kSplitCountKey = "split.count";
constexpr const char* kSplitTensorsKey = "split.tensors.count";
constexpr int64_t kMaxParts = 99999;  // five digits in the file name
constexpr int64_t kMaxTensors = std::numeric_limits<int32_t>::max();

// Which part of a split a file says it is.
struct SplitInfo {
  int64_t index = 0;
  int64_t count = 1;
  int64_t n_tensors = 0;  // of all parts together
};

const GgufValue* find_value(std::span<const GgufValue> metadata, std::string_view key) {
  for (const GgufValue& value : metadata) {
    if (value.key() == key) {
      return &value;
    }
  }
  return nullptr;
}

SplitInfo read_split_info(std::span<const GgufValue> metadata, const std::string& file) {
  SplitInfo split;
  const GgufValue* count = find_value(metadata, kSplitCountKey);
  if (count == nullptr) {
    return split;
  }
  split.count = count->to_int(0, kMaxParts);
  if (split.count <= 1) {
    return {};
  }
  const auto require = [&](const char* key, int64_t max) {
    const GgufValue* value = find_value(metadata, key);
    if (value == nullptr) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: has {} but no {}", file, kSplitCountKey, key));
    }
    return value->to_int(0, max);
  };
  split.index = require(kSplitIndexKey, split.count - 1);
  split.n_tensors = require(kSplitTensorsKey, kMaxTensors);
  return split;
}

std::string part_suffix(int64_t index, int64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count); }

}  // namespace

GgufFile GgufFile::open(const std::string& path) {
  GgufFile file;
  FileMap map(path);
  const auto bytes = map.bytes();
  file.add_part(path, std::move(map), bytes);
  file.open_other_parts();
  return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile file;
  file.add_part(std::move(name), FileMap(), bytes);
  const SplitInfo split = read_split_info(file.metadata_, file.path());
  if (split.count > 1) {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}: is part {} of {} of a split file, expected a whole file",
                                                     file.path(), split.index + 1, split.count));
  }
  return file;
}

void GgufFile::add_part(std::string name, FileMap map, std::span<const std::byte> bytes) {
  parts_.push_back(std::make_unique<Part>(Part{std::move(name), std::move(map)}));
  const std::string& file = parts_.back()->name;
  GgufImage image = parse_gguf(bytes, file);
  if (parts_.size() == 1) {
    metadata_ = std::move(image.metadata);
    for (size_t i = 0; i < metadata_.size(); ++i) {
      metadata_index_.emplace(metadata_[i].key(), i);
    }
  } else {
    const SplitInfo first = read_split_info(metadata_, path());
    const SplitInfo split = read_split_info(image.metadata, file);
    const auto expected = static_cast<int64_t>(parts_.size()) - 1;
    if (split.index != expected || split.count != first.count || split.n_tensors != first.n_tensors) {
      throw Error(
          ErrorCode::kBadModel,
          fmt::format("{}: says it is part {} of {} with {} tensors in all, expected part {} of {} with {}", file,
                      split.index + 1, split.count, split.n_tensors, expected + 1, first.count, first.n_tensors));
    }
  }
  for (const GgufTensor& tensor : image.tensors) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("{}: tensor {} is also in an earlier part", file, printable(tensor.name)));
    }
    tensors_.push_back(tensor);
  }
}

void GgufFile::open_other_parts() {
  const std::string& first = path();
  const SplitInfo split = read_split_info(metadata_, first);
  if (split.count == 1) {
    return;
  }
  const std::string suffix = part_suffix(split.index, split.count);
  if (!first.ends_with(suffix)) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: is part {} of {} of a split file, so its name must end in {}",
                                                  first, split.index + 1, split.count, suffix));
  }
  const std::string stem = first.substr(0, first.size() - suffix.size());
  if (split.index != 0) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: is part {} of {} of a split file; open the first, {}{}", first,
                                                  split.index + 1, split.count, stem, part_suffix(0, split.count)));
  }
  for (int64_t i = 1; i < split.count; ++i) {
    std::string part = stem + part_suffix(i, split.count);
    FileMap map(part);
    const auto bytes = map.bytes();
    add_part(std::move(part), std::move(map), bytes);
  }
  if (static_cast<int64_t>(tensors_.size()) != split.n_tensors) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: the {} parts hold {} tensors, expected {}", first, split.count,
                                                  tensors_.size(), split.n_tensors));
  }
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const noexcept {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufFile::find(std::string_view key) const noexcept {
  const auto found = metadata_index_.find(key);
  return found == metadata_index_.end() ? nullptr : &metadata_[found->second];
}

const GgufValue& GgufFile::at(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: metadata key {} is missing", path(), printable(key)));
  }
  return *value;
}

}  // namespace fathom
