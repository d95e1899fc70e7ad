// What all instruction sets share: the arithmetic of one lane, and the fallbacks. Static functions only: an ISA file
// must not define linkable symbols besides its table.
#pragma once

#include "backend/cpu/kernels.h"

namespace fathom::cpu {

static inline float half_to_float_bits(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1FU;
  const uint32_t mantissa = h & 0x3FFU;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return (h & 0x8000U) != 0 ? -value : value;
  }
  const uint32_t bits = sign | (exponent == 31 ? 0x7F800000U : (exponent + 112U) << 23) | mantissa << 13;
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

static inline float power_of_two(uint8_t e8m0) {
  const uint32_t bits = e8m0 == 0 ? 0x00400000U : static_cast<uint32_t>(e8m0) << 23;
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

static inline float half_at(const std::byte* p, int lane) {
  uint16_t h;
  __builtin_memcpy(&h, p + 2 * lane, sizeof h);
  return half_to_float_bits(h);
}

static inline float e4m3_to_float(uint8_t code) {
  // An F16 with the same fields, whose exponent is biased by 8 more.
  return half_to_float_bits(static_cast<uint16_t>((code & 0x80U) << 8 | (code & 0x7FU) << 7)) * 0x1p8F;
}

// Scale and offset of one lane in one block, or in one half of it.
struct LaneScale {
  float scale;
  float offset;
};

static inline LaneScale lane_scale(const PanelFormat& f, const std::byte* panel, int block, int half, int lane) {
  const std::byte* after = panel + f.block_offset(block) + f.code_bytes();
  const int sub = block % kSuperBlocks;
  switch (f.scale) {
    case PanelScale::kHalf:
      return {half_at(after, lane) * f.factor, 0.0F};
    case PanelScale::kHalfMin:
      return {half_at(after, lane) * f.factor, half_at(after + 2 * kLanes, lane)};
    case PanelScale::kPower:
      return {power_of_two(static_cast<uint8_t>(after[lane])) * f.factor, 0.0F};
    case PanelScale::kSuper: {
      const std::byte* header = panel + f.header_offset(block);
      const auto s = static_cast<int8_t>(header[2 * kLanes + sub * kLanes + lane]);
      return {half_at(header, lane) * static_cast<float>(s), 0.0F};
    }
    case PanelScale::kSuperMin: {
      const std::byte* header = panel + f.header_offset(block);
      const std::byte* scales = header + 4 * kLanes;
      const auto s = static_cast<uint8_t>(scales[sub * kLanes + lane]);
      const auto m = static_cast<uint8_t>(scales[kSuperBlocks * kLanes + sub * kLanes + lane]);
      return {half_at(header, lane) * static_cast<float>(s),
              -(half_at(header + 2 * kLanes, lane) * static_cast<float>(m))};
    }
    case PanelScale::kSuperPair: {
      const std::byte* header = panel + f.header_offset(block);
      const auto pair = static_cast<uint8_t>(header[4 * kLanes + (2 * sub + half) * kLanes + lane]);
      return {half_at(header, lane) * static_cast<float>(pair & 0xF),
              -(half_at(header + 2 * kLanes, lane) * static_cast<float>(pair >> 4))};
    }
    case PanelScale::kSuperHalves: {
      const std::byte* header = panel + f.header_offset(block);
      const auto s = static_cast<int8_t>(header[2 * kLanes + (2 * sub + half) * kLanes + lane]);
      return {half_at(header, lane) * static_cast<float>(s), 0.0F};
    }
    case PanelScale::kGridScale: {
      const auto pair = static_cast<uint8_t>(after[lane % 8]);
      const int s = lane < 8 ? pair & 0xF : pair >> 4;
      return {half_at(panel + f.header_offset(block), lane) * ((0.5F + static_cast<float>(s)) * f.factor), 0.0F};
    }
    case PanelScale::kNone:
      break;
  }
  return {0.0F, 0.0F};
}

static constexpr bool has_offset(PanelScale s) {
  return s == PanelScale::kHalfMin || s == PanelScale::kSuperMin || s == PanelScale::kSuperPair;
}
// Each half of a block has a scale of its own.
static constexpr bool has_halves(PanelScale s) { return s == PanelScale::kSuperPair || s == PanelScale::kSuperHalves; }

// The tile of rows that follows `p`'s by `tiles`.
static inline QuantProduct tile_at(const QuantPanelProduct& p, int tile) {
  QuantProduct q = p.first;
  const ptrdiff_t blocks = static_cast<ptrdiff_t>(tile) * p.tile_blocks;
  q.x.codes += blocks * (kTileRows * kBlockColumns);
  q.x.scales += blocks * kTileRows;
  q.x.sums += blocks * kTileRows;
  q.x.low_sums += blocks * kTileRows;
  q.y += static_cast<ptrdiff_t>(tile) * kTileRows * q.ld;
  const int left = p.n_rows - tile * kTileRows;
  q.n_rows = left < kTileRows ? left : kTileRows;
  return q;
}

}  // namespace fathom::cpu
