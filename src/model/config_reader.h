// A model file's description of itself -> ModelConfig. Every value is checked: type, range, agreement with the others,
// and for the choices that the code makes only one way (activation, gating, norms, ties), that they are that way.
#pragma once

#include <string>
#include <string_view>

#include "core/model_config.h"

namespace fathom {

class GgufFile;
class WeightSource;

// From GGUF metadata, or from config.json beside safetensors. Throws kBadModel (missing, wrong or contradictory value),
// kUnsupported (another architecture or variant).
[[nodiscard]] ModelConfig read_config(const WeightSource& source);

[[nodiscard]] ModelConfig read_gguf_config(const GgufFile& file);

// Any of the three spellings: the official config.json, the one of the official inference code, and the Hugging Face
// port's. `file` stands for the text in messages; the config's name is left empty.
[[nodiscard]] ModelConfig read_json_config(std::string_view text, const std::string& file);

}  // namespace fathom
