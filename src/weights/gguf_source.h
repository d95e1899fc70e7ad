// Tensors of a GGUF file as weights. Private to weights/: use WeightSource::open().
#pragma once

#include <memory>
#include <string>

#include "gguf/gguf_file.h"
#include "weights/weight_source.h"

namespace fathom {

[[nodiscard]] std::unique_ptr<WeightSource> open_gguf_source(const std::string& path);
[[nodiscard]] std::unique_ptr<WeightSource> make_gguf_source(GgufFile file);

}  // namespace fathom
