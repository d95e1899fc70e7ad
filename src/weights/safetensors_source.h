// Tensors of safetensors, official or saved by the Hugging Face port, as canonical weights. Private to weights/: use
// WeightSource::open().
#pragma once

#include <memory>
#include <string>

#include "safetensors/safetensors_model.h"
#include "weights/weight_source.h"

namespace fathom {

[[nodiscard]] std::unique_ptr<WeightSource> open_safetensors_source(const std::string& path);
// Without the files beside it.
[[nodiscard]] std::unique_ptr<WeightSource> make_safetensors_source(SafetensorsModel model);

}  // namespace fathom
