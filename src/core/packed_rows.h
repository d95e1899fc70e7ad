// Byte layout of cache rows that hold codes instead of floats. Rows are tightly packed bytes without padding;
// multi-byte values are little-endian and may be unaligned. Packing quantises as activation_sim.h does, so a row that
// was simulated before loses nothing but the rotary dims' float32 (they become BF16).
//
//   KV row     [nope E4M3 codes | E8M0 scale per 64 codes | rope dims as BF16]      448 + 7 + 128 = 583 bytes
//   index row  [E2M1 codes, two a byte, low nibble first | E8M0 scale per 32 codes]        64 + 4 = 68 bytes
//
// (sizes at the real shape: 448 non-rotary and 64 rotary dims, 128 index dims).
#pragma once

#include <cstddef>
#include <span>

#include "core/activation_sim.h"

namespace fathom {

struct KvRowLayout {
  int nope = 0;  // dims stored as codes
  int rope = 0;  // dims stored as BF16, after the others

  [[nodiscard]] constexpr int dims() const { return nope + rope; }
  [[nodiscard]] constexpr int n_scales() const { return group_count(nope, kFp8Group); }
  [[nodiscard]] constexpr size_t scales_offset() const { return static_cast<size_t>(nope); }
  [[nodiscard]] constexpr size_t rope_offset() const { return static_cast<size_t>(nope + n_scales()); }
  [[nodiscard]] constexpr size_t bytes() const { return rope_offset() + 2 * static_cast<size_t>(rope); }
};

struct IndexRowLayout {
  int dims = 0;  // after the Hadamard rotation: hadamard_size(index_dim)

  [[nodiscard]] constexpr int n_scales() const { return group_count(dims, kFp4Group); }
  [[nodiscard]] constexpr size_t scales_offset() const { return static_cast<size_t>((dims + 1) / 2); }
  [[nodiscard]] constexpr size_t bytes() const { return scales_offset() + static_cast<size_t>(n_scales()); }
};

// row: dims() floats. packed: bytes() bytes.
void pack_kv_row(const KvRowLayout& layout, std::span<const float> row, std::span<std::byte> packed) noexcept;
void unpack_kv_row(const KvRowLayout& layout, std::span<const std::byte> packed, std::span<float> row) noexcept;

void pack_index_row(const IndexRowLayout& layout, std::span<const float> row, std::span<std::byte> packed) noexcept;
void unpack_index_row(const IndexRowLayout& layout, std::span<const std::byte> packed, std::span<float> row) noexcept;

}  // namespace fathom
