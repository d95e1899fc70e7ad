// Where the model that comes with Fathom lies: what commands use when no -m is given.
#pragma once

#include <string>
#include <vector>

namespace fathom::cli {

// Where it may be for a program at `executable`, in order: the source tree around a build directory, then the data
// directory of an installation.
[[nodiscard]] std::vector<std::string> bundled_model_candidates(const std::string& executable);

// The first of them that exists. Throws Error kIo listing all of them.
[[nodiscard]] std::string find_bundled_model(const std::string& executable);

// Path of the running program. Throws Error kIo.
[[nodiscard]] std::string executable_path();

}  // namespace fathom::cli
