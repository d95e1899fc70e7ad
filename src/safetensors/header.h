// The JSON header of a safetensors file. Private to safetensors/.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "safetensors/safetensors_file.h"

namespace fathom {

inline constexpr const char* kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsEntry {
  std::string name;
  SafetensorsDType dtype = SafetensorsDType::kF32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes from the end of the header
  uint64_t end = 0;
};

// Accepts exactly the structure that the format allows, so memory stays in proportion to the text. Offsets are not
// checked against shapes. `file` names the text in messages. Throws kBadModel, kUnsupported.
[[nodiscard]] std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view text, const std::string& file);

}  // namespace fathom
