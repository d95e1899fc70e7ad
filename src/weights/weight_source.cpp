#include "weights/weight_source.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/file_map.h"
#include "weights/gguf_source.h"
#include "weights/safetensors_source.h"

namespace fathom {
namespace {

bool is_gguf(const std::string& path) {
  constexpr std::string_view kMagic = "GGUF";
  const FileMap map(path);
  const auto bytes = map.bytes();
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

}  // namespace

std::unique_ptr<WeightSource> WeightSource::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return open_safetensors_source(path);
  }
  if (is_gguf(path) || path.ends_with(".gguf")) {
    return open_gguf_source(path);
  }
  if (path.ends_with(".safetensors")) {
    return open_safetensors_source(path);
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: neither a GGUF file nor safetensors, expected one of them or a directory", path));
}

const Weight* WeightSource::find(std::string_view canonical_name) const noexcept {
  const auto found = index_.find(canonical_name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void WeightSource::release(const Weight& weight) const {
  const size_t codes = dtype_row_bytes(weight.dtype, weight.in_dim) * static_cast<size_t>(weight.out_dim);
  // Slices that lie one behind another are one range: pages between two would belong to neither.
  for (size_t i = 0; i < weight.slices.size();) {
    size_t end = i + 1;
    while (end < weight.slices.size() && weight.slices[end].codes == weight.slices[end - 1].codes + codes) {
      ++end;
    }
    release_bytes({weight.slices[i].codes, (end - i) * codes});
    i = end;
  }
}

bool WeightSource::add_tensor(std::string name, const Weight& weight, std::vector<WeightSlice> slices) {
  if (index_.contains(name)) {
    return false;
  }
  const Storage& stored = storage_.emplace_back(Storage{std::move(name), std::move(slices)});
  index_.emplace(stored.name, tensors_.size());
  tensors_.push_back(weight);
  tensors_.back().name = stored.name;
  tensors_.back().slices = stored.slices;
  return true;
}

}  // namespace fathom
