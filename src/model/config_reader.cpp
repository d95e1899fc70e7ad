#include "model/config_reader.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "gguf/gguf_file.h"
#include "weights/weight_source.h"

namespace fathom {
namespace {

// A label from the path: "dir/model.gguf" and "dir/model/" are "model".
std::string label_of(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).stem().string();
}

std::string config_path(const WeightSource& source) {
  const std::filesystem::path path(source.path());
  std::error_code ignored;
  const auto directory = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  return (directory / "config.json").string();
}

}  // namespace

ModelConfig read_config(const WeightSource& source) {
  ModelConfig config;
  if (source.gguf() != nullptr) {
    config = read_gguf_config(*source.gguf());
  } else if (source.config_json().empty()) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: missing or empty, expected the model's config beside its "
                                                  "weights",
                                                  config_path(source)));
  } else {
    config = read_json_config(source.config_json(), config_path(source));
  }
  if (config.name.empty()) {
    config.name = label_of(source.path());
  }
  return config;
}

}  // namespace fathom
