// fathom logits: the logits of a token sequence, position by position, as a NumPy file.
#pragma once

#include <string>

#include "cli/model_options.h"

namespace fathom::cli {

struct LogitsOptions {
  ModelOptions model;
  std::string tokens_file;
  std::string out;
  int chunk = 512;  // tokens fed at a time
  int steps = 0;    // the last so many one by one
};

[[nodiscard]] int logits(const LogitsOptions& options);

}  // namespace fathom::cli
