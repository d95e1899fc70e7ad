// fathom perplexity: how well a model predicts a text, and how far it is from another model that predicted it before.
#pragma once

#include <string>

#include "cli/model_options.h"

namespace fathom::cli {

struct PerplexityOptions {
  ModelOptions model;
  std::string text_file;    // "-": standard input
  int context = 512;        // positions of one window
  std::string save_logits;  // a file to write
  std::string against;      // a file written so by another model
  bool json = false;
};

[[nodiscard]] int perplexity(const PerplexityOptions& options);

}  // namespace fathom::cli
