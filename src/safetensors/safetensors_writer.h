// Writes safetensors files: what tests and small tools need. The file appears under its name only when complete.
#pragma once

#include <span>
#include <string>

#include "safetensors/safetensors_file.h"

namespace fathom {

// `bytes` of every tensor has the size of its shape, and names are distinct. Throws kIo.
void write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors);

// The same file in memory.
[[nodiscard]] std::string encode_safetensors(std::span<const SafetensorsTensor> tensors);

}  // namespace fathom
