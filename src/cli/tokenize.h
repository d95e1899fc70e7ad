// fathom tokenize, fathom detokenize: standard input as tokens, and back.
#pragma once

#include <string>

namespace fathom::cli {

struct TokenizeOptions {
  std::string model;
  bool ids_only = false;    // one line of ids instead of a line per token
  bool no_special = false;  // control tokens in the text are ordinary text
};

struct DetokenizeOptions {
  std::string model;
};

[[nodiscard]] int tokenize(const TokenizeOptions& options);
[[nodiscard]] int detokenize(const DetokenizeOptions& options);

}  // namespace fathom::cli
