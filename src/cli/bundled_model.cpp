#include "cli/bundled_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "core/error.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "models/fathom-tiny.gguf";
// From build/<preset>/fathom to the top of the source tree.
constexpr int kLevelsUp = 3;

}  // namespace

std::vector<std::string> bundled_model_candidates(const std::string& executable) {
  std::vector<std::string> candidates;
  const fs::path folder = fs::path(executable).parent_path();
  fs::path up = folder;
  for (int level = 0; level < kLevelsUp; ++level) {
    candidates.push_back((up / kModelFile).string());
    if (up == up.root_path()) {
      break;
    }
    up = up.parent_path();
  }
  candidates.push_back((folder / FATHOM_DATA_FROM_BIN / kModelFile).lexically_normal().string());
  return candidates;
}

std::string find_bundled_model(const std::string& executable) {
  const std::vector<std::string> candidates = bundled_model_candidates(executable);
  for (const std::string& path : candidates) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) {
      return path;
    }
  }
  throw Error(ErrorCode::kIo, fmt::format("no model given (-m) and the bundled one was not found; looked for {}",
                                          fmt::join(candidates, ", ")));
}

std::string executable_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("/proc/self/exe: cannot read: {}", error.message()));
  }
  return path.string();
}

}  // namespace fathom::cli
