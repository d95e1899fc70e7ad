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

// Scale and offset of one lane in one block of a format whose scales are no integers.
struct LaneScale {
  float scale;
  float offset;
};

static inline LaneScale lane_scale(const PanelFormat& f, const std::byte* panel, int block, int lane) {
  const std::byte* after = panel + f.block_offset(block) + f.code_bytes();
  switch (f.scale) {
    case PanelScale::kHalf:
      return {half_at(after, lane) * f.factor, 0.0F};
    case PanelScale::kHalfMin:
      return {half_at(after, lane) * f.factor, half_at(after + 2 * kLanes, lane)};
    default:
      return {power_of_two(static_cast<uint8_t>(after[lane])) * f.factor, 0.0F};
  }
}

// Integer scale and min of one lane in one block, or in one half of it, of a format with integer scales.
struct LaneInteger {
  int32_t scale;
  int32_t min;
};

static inline LaneInteger lane_integer(const PanelFormat& f, const std::byte* panel, int block, int half, int lane) {
  const std::byte* header = panel + f.header_offset(block);
  const int sub = block % kSuperBlocks;
  switch (f.scale) {
    case PanelScale::kSuper:
      return {static_cast<int8_t>(header[2 * kLanes + sub * kLanes + lane]), 0};
    case PanelScale::kSuperMin: {
      const std::byte* scales = header + 4 * kLanes + sub * kLanes + lane;
      return {static_cast<uint8_t>(scales[0]), static_cast<uint8_t>(scales[kSuperBlocks * kLanes])};
    }
    case PanelScale::kSuperPair: {
      const auto pair = static_cast<uint8_t>(header[4 * kLanes + (2 * sub + half) * kLanes + lane]);
      return {pair & 0xF, pair >> 4};
    }
    case PanelScale::kSuperHalves:
      return {static_cast<int8_t>(header[2 * kLanes + (2 * sub + half) * kLanes + lane]), 0};
    default: {
      // A grid's scale is its nibble and a half: twice that is an integer.
      const auto pair = static_cast<uint8_t>(
          panel[f.block_offset(block) + static_cast<size_t>(f.code_bytes()) + static_cast<size_t>(lane % 8)]);
      return {2 * (lane < 8 ? pair & 0xF : pair >> 4) + 1, 0};
    }
  }
}

static constexpr bool has_offset(PanelScale s) {
  return s == PanelScale::kHalfMin || s == PanelScale::kSuperMin || s == PanelScale::kSuperPair;
}
// Each half of a block has a scale of its own.
static constexpr bool has_halves(PanelScale s) { return s == PanelScale::kSuperPair || s == PanelScale::kSuperHalves; }
static constexpr bool has_integers(PanelScale s) { return PanelFormat{.scale = s}.integer_scales(); }

// What the integers of a group are multiplied by: LaneScale of a format with integer scales.
static inline LaneScale lane_factor(const PanelFormat& f, const std::byte* panel, int block, int lane) {
  const std::byte* header = panel + f.header_offset(block);
  const float scale = half_at(header, lane);
  if (f.scale == PanelScale::kGridScale) {
    return {scale * (0.5F * f.factor), 0.0F};
  }
  return {scale, has_offset(f.scale) ? -half_at(header + 2 * kLanes, lane) : 0.0F};
}

// Calls f.operator()<i>() for i = 0 ... N - 1, unrolled.
template <int N, class F>
[[gnu::always_inline]] static inline void unrolled(F&& f) {
  if constexpr (N > 0) {
    unrolled<N - 1>(f);
    f.template operator()<N - 1>();
  }
}

// Calls f.operator()<code, scale>() for the pair that `format` has; every pair that PackedMatrix makes is here.
template <class F>
static inline void with_format(const PanelFormat& format, F&& f) {
  switch (format.code) {
    case PanelCode::kQ8:
      return f.template operator()<PanelCode::kQ8, PanelScale::kHalf>();
    case PanelCode::kTwoBit:
      return f.template operator()<PanelCode::kTwoBit, PanelScale::kSuperPair>();
    case PanelCode::kThreeBit:
      return f.template operator()<PanelCode::kThreeBit, PanelScale::kSuperHalves>();
    case PanelCode::kFiveBit:
      return f.template operator()<PanelCode::kFiveBit, PanelScale::kSuperMin>();
    case PanelCode::kSixBit:
      return f.template operator()<PanelCode::kSixBit, PanelScale::kSuperHalves>();
    case PanelCode::kGrid:
      return f.template operator()<PanelCode::kGrid, PanelScale::kGridScale>();
    case PanelCode::kGrid4:
      return f.template operator()<PanelCode::kGrid4, PanelScale::kGridScale>();
    default:
      break;
  }
  switch (format.scale) {
    case PanelScale::kHalf:
      return f.template operator()<PanelCode::kNibble, PanelScale::kHalf>();
    case PanelScale::kHalfMin:
      return f.template operator()<PanelCode::kNibble, PanelScale::kHalfMin>();
    case PanelScale::kPower:
      return f.template operator()<PanelCode::kNibble, PanelScale::kPower>();
    case PanelScale::kSuper:
      return f.template operator()<PanelCode::kNibble, PanelScale::kSuper>();
    case PanelScale::kSuperMin:
      return f.template operator()<PanelCode::kNibble, PanelScale::kSuperMin>();
    default:
      return;
  }
}

// The tile of rows that follows `p`'s by `tiles`.
static inline QuantProduct tile_at(const QuantPanelProduct& p, int tile) {
  QuantProduct q = p.first;
  const ptrdiff_t blocks = static_cast<ptrdiff_t>(tile) * p.tile_blocks;
  q.x.codes += blocks * (kTileRows * kBlockColumns);
  q.x.scales += blocks * kTileRows;
  q.x.sums += blocks * (2 * kTileRows);
  q.y += static_cast<ptrdiff_t>(tile) * kTileRows * q.ld;
  const int left = p.n_rows - tile * kTileRows;
  q.n_rows = left < kTileRows ? left : kTileRows;
  return q;
}

}  // namespace fathom::cpu
