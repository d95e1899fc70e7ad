// fathom synth: a GGUF file with invented weights and a tokenizer of bytes, for tests and measurements.
#pragma once

#include <string>

#include "cli/synthetic.h"

namespace fathom::cli {

struct SynthOptions {
  SyntheticOptions model;
  std::string out;
};

[[nodiscard]] int synth(const SynthOptions& options);

}  // namespace fathom::cli
