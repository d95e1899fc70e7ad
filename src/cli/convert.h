// fathom convert: a safetensors directory as one GGUF file, tensor by tensor.
#pragma once

#include <optional>
#include <string>

#include "chat/prompt.h"
#include "quant/recipe.h"

namespace fathom::cli {

struct ConvertOptions {
  std::string source;
  std::string out;
  Recipe recipe;
  std::string name;                    // general.name; empty: the source's
  std::optional<ChatDialect> dialect;  // unset: detected from the name
};

[[nodiscard]] int convert(const ConvertOptions& options);

}  // namespace fathom::cli
