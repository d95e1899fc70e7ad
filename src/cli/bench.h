// fathom bench: how fast a model runs here, and how far that is from what the processor could do.
#pragma once

#include <string>
#include <vector>

#include "cli/model_options.h"
#include "cli/synthetic.h"

namespace fathom::cli {

struct BenchOptions {
  ModelOptions model;
  SyntheticOptions synthetic;        // a shape is given: instead of `model.model`
  std::vector<int> prompts = {512};  // tokens of the prefills; 0: none
  int gen = 64;                      // tokens to decode; 0: none
  int depth = 0;                     // positions before both
  int seqs = 1;                      // sequences that decode together
  int chunk = 512;                   // rows of a prefill step
  int repeat = 3;
  bool profile = false;
  bool json = false;
};

[[nodiscard]] int bench(const BenchOptions& options);

}  // namespace fathom::cli
