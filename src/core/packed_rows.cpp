#include "core/packed_rows.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/check.h"
#include "core/scalar.h"

namespace fathom {

static_assert(std::endian::native == std::endian::little, "rows are little-endian");

void pack_kv_row(const KvRowLayout& layout, std::span<const float> row, std::span<std::byte> packed) noexcept {
  FATHOM_DCHECK(row.size() == static_cast<size_t>(layout.dims()) && packed.size() == layout.bytes(), "row size");
  const auto nope = static_cast<size_t>(layout.nope);
  fp8_quantize(row.first(nope), packed.first(nope),
               packed.subspan(layout.scales_offset(), static_cast<size_t>(layout.n_scales())));
  std::byte* out = packed.data() + layout.rope_offset();
  for (const float v : row.subspan(nope)) {
    const uint16_t code = f32_to_bf16(v);
    std::memcpy(out, &code, sizeof(code));
    out += sizeof(code);
  }
}

void unpack_kv_row(const KvRowLayout& layout, std::span<const std::byte> packed, std::span<float> row) noexcept {
  FATHOM_DCHECK(row.size() == static_cast<size_t>(layout.dims()) && packed.size() == layout.bytes(), "row size");
  const auto nope = static_cast<size_t>(layout.nope);
  fp8_dequantize(packed.first(nope), packed.subspan(layout.scales_offset(), static_cast<size_t>(layout.n_scales())),
                 row.first(nope));
  const std::byte* in = packed.data() + layout.rope_offset();
  for (float& v : row.subspan(nope)) {
    uint16_t code = 0;
    std::memcpy(&code, in, sizeof(code));
    in += sizeof(code);
    v = bf16_to_f32(code);
  }
}

void pack_index_row(const IndexRowLayout& layout, std::span<const float> row, std::span<std::byte> packed) noexcept {
  FATHOM_DCHECK(row.size() == static_cast<size_t>(layout.dims) && packed.size() == layout.bytes(), "row size");
  fp4_quantize(row, packed.first(layout.scales_offset()), packed.subspan(layout.scales_offset()));
}

void unpack_index_row(const IndexRowLayout& layout, std::span<const std::byte> packed, std::span<float> row) noexcept {
  FATHOM_DCHECK(row.size() == static_cast<size_t>(layout.dims) && packed.size() == layout.bytes(), "row size");
  fp4_dequantize(packed.first(layout.scales_offset()), packed.subspan(layout.scales_offset()), row);
}

}  // namespace fathom
