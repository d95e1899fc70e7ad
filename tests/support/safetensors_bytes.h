// A safetensors image from any header text, right or wrong: independent of the writer, which can only write right ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom::test {

[[nodiscard]] inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + std::string(header) + std::string(data);
}

}  // namespace fathom::test
