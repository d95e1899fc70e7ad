// One GGUF file image -> checked metadata and tensors. Private to gguf/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "gguf/gguf_value.h"

namespace fathom {

inline constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF" read as a little-endian number
inline constexpr uint32_t kGgufDefaultAlignment = 32;
inline constexpr const char* kGgufAlignmentKey = "general.alignment";

struct GgufImage {
  std::vector<GgufValue> metadata;
  std::vector<GgufTensor> tensors;
};

// `file` names the image in messages and must outlive the result, as must `bytes`.
[[nodiscard]] GgufImage parse_gguf(std::span<const std::byte> bytes, const std::string& file);

}  // namespace fathom
