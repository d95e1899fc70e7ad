#include "safetensors/safetensors_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/json_text.h"
#include "core/printable.h"

namespace fathom {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
// Far above the 14 MB that the largest known model needs; bounds what parsing can allocate.
constexpr size_t kMaxIndexBytes = 64 << 20;

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

// A name from the index must stay inside the model's directory.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

WeightMap read_index(const std::string& path) {
  const FileMap map(path);
  const auto bytes = map.bytes();
  if (bytes.size() > kMaxIndexBytes) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("{}: {} bytes, expected at most {}", path, bytes.size(), kMaxIndexBytes));
  }
  const auto json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  const auto weight_map = json.find("weight_map");
  if (!json.is_object() || weight_map == json.end() || !weight_map->is_object() || weight_map->empty()) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: no weight_map, expected an object: tensor -> file", path));
  }
  WeightMap files;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: weight_map sends tensor {} to {}, expected a file name", path,
                                                    printable(tensor), printable(file.dump())));
    }
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

void check_against_index(const SafetensorsModel& model, const WeightMap& weight_map, const std::string& index_path) {
  const auto name_of = [](const SafetensorsFile& file) {
    return std::filesystem::path(file.path()).filename().string();
  };
  for (const auto& [tensor, file] : weight_map) {
    const SafetensorsModel::Entry* entry = model.find(tensor);
    if (entry == nullptr || name_of(*entry->file) != file) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("{}: tensor {} should be in {}, but is {}", index_path, printable(tensor),
                              printable(file), entry == nullptr ? "missing" : "in " + name_of(*entry->file)));
    }
  }
  for (const SafetensorsModel::Entry& entry : model.tensors()) {
    if (!weight_map.contains(entry.tensor->name)) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: tensor {} of {} is not listed", index_path,
                                                    printable(entry.tensor->name), name_of(*entry.file)));
    }
  }
}

// "x-00002-of-00046.safetensors"
bool is_shard_name(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  constexpr std::string_view kPattern = "-00000-of-00000";
  if (stem.size() < kPattern.size()) {
    return false;
  }
  const std::string_view tail = std::string_view(stem).substr(stem.size() - kPattern.size());
  return std::equal(kPattern.begin(), kPattern.end(), tail.begin(),
                    [](char p, char c) { return p == '0' ? c >= '0' && c <= '9' : p == c; });
}

}  // namespace

SafetensorsModel SafetensorsModel::open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (is_shard_name(path)) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: is one part of a model, expected its directory", path));
    }
    std::vector<SafetensorsFile> files;
    files.push_back(SafetensorsFile::open(path));
    return {path, std::move(files)};
  }
  const fs::path directory(path);
  const std::string index_path = (directory / kIndexName).string();
  std::vector<SafetensorsFile> files;
  if (!fs::exists(index_path, ignored)) {
    const std::string single = (directory / kSingleName).string();
    if (!fs::exists(single, ignored)) {
      throw Error(ErrorCode::kIo, fmt::format("{}: holds neither {} nor {}", path, kIndexName, kSingleName));
    }
    files.push_back(SafetensorsFile::open(single));
    return {path, std::move(files)};
  }
  const WeightMap weight_map = read_index(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) {
    names.insert(file);
  }
  for (const std::string& name : names) {
    files.push_back(SafetensorsFile::open((directory / name).string()));
  }
  SafetensorsModel model(path, std::move(files));
  check_against_index(model, weight_map, index_path);
  return model;
}

SafetensorsModel SafetensorsModel::from_file(SafetensorsFile file) {
  std::string path = file.path();
  std::vector<SafetensorsFile> files;
  files.push_back(std::move(file));
  return {std::move(path), std::move(files)};
}

SafetensorsModel::SafetensorsModel(std::string path, std::vector<SafetensorsFile> files)
    : path_(std::move(path)), files_(std::move(files)) {
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) {
      const auto [found, is_new] = index_.emplace(tensor.name, tensors_.size());
      if (!is_new) {
        throw Error(ErrorCode::kBadModel, fmt::format("{}: tensor {} is also in {}", file.path(),
                                                      printable(tensor.name), tensors_[found->second].file->path()));
      }
      tensors_.push_back({&tensor, &file});
    }
  }
}

const SafetensorsModel::Entry* SafetensorsModel::find(std::string_view name) const noexcept {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace fathom
