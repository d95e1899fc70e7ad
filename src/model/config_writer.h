// ModelConfig -> GGUF metadata: what config_reader.h reads, and what llama.cpp asks for besides.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace fathom {

struct GgufKv;

// Architecture, name, and all keys of "deepseek4.*".
[[nodiscard]] std::vector<GgufKv> gguf_config_metadata(const ModelConfig& config);

}  // namespace fathom
