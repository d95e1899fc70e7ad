// FNV-1a, for long texts that have to be byte for byte those of somebody else.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::test {

constexpr uint64_t fnv(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace fathom::test
