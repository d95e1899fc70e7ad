// Plain loops: what a CPU without a faster table runs, and the meaning of the others.
#include "backend/cpu/isa/product_impl.h"
#include "backend/cpu/isa/silu_impl.h"

namespace fathom::cpu {
namespace {

int code_at(const PanelFormat& f, const std::byte* codes, int column, int lane) {
  const int group = column / 4;
  const int within = lane * 4 + column % 4;
  if (f.code == PanelCode::kQ8) {
    return static_cast<int8_t>(codes[group * kGroupBytes + within]);
  }
  const auto two_bits = [&](const std::byte* planes) {
    return static_cast<uint8_t>(planes[group / 4 * kGroupBytes + within]) >> (group % 4 * 2) & 3;
  };
  const auto nibble = [&] {
    const auto byte = static_cast<uint8_t>(codes[group % 4 * kGroupBytes + within]);
    return group < 4 ? byte & 0xF : byte >> 4;
  };
  const auto mask_bit = [&](const std::byte* masks) {
    uint64_t mask;
    __builtin_memcpy(&mask, masks + 8 * group, sizeof mask);
    return static_cast<int>(mask >> within & 1);
  };
  switch (f.code) {
    case PanelCode::kTwoBit:
      return two_bits(codes);
    case PanelCode::kThreeBit:
      return two_bits(codes) + 4 * mask_bit(codes + kTwoBitBlockBytes) - 4;
    case PanelCode::kFiveBit:
      return nibble() + 16 * mask_bit(codes + kNibbleBlockBytes);
    case PanelCode::kSixBit:
      return nibble() + 16 * two_bits(codes + kNibbleBlockBytes) - 32;
    case PanelCode::kGrid: {
      const int magnitude = f.grid[static_cast<uint8_t>(codes[group / 2 * kLanes + lane]) * 8 + column % 8];
      return mask_bit(codes + 4 * kLanes) != 0 ? -magnitude : magnitude;
    }
    case PanelCode::kGrid4: {
      const int magnitude = f.grid[static_cast<uint8_t>(codes[group * kLanes + lane]) * 4 + column % 4];
      return mask_bit(codes + 8 * kLanes) != 0 ? -magnitude : magnitude;
    }
    default:
      return f.values[nibble()];
  }
}

void quantize_row(const float* x, int n, int group, int row, const QuantTileOut& tile) noexcept {
  const int n_blocks = n / kBlockColumns;
  for (int first = 0; first < n_blocks; first += group) {
    const int last = first + group < n_blocks ? first + group : n_blocks;
    float amax = 0.0F;
    for (int i = first * kBlockColumns; i < last * kBlockColumns; ++i) {
      const float a = __builtin_fabsf(x[i]);
      amax = a > amax ? a : amax;
    }
    const float inverse = amax > 0.0F ? 127.0F / amax : 0.0F;
    for (int b = first; b < last; ++b) {
      int8_t* out = tile.codes + QuantTile::code_at(b, row);
      int sums[2] = {0, 0};
      for (int i = 0; i < kBlockColumns; ++i) {
        // Adding and taking away 1.5 * 2^23 rounds to nearest even.
        const float rounded = (x[b * kBlockColumns + i] * inverse + 0x1.8p23F) - 0x1.8p23F;
        out[i] = static_cast<int8_t>(rounded);
        sums[i / (kBlockColumns / 2)] += out[i];
      }
      const ptrdiff_t at = QuantTile::scale_at(b, row);
      tile.scales[at] = amax * (1.0F / 127.0F);
      tile.sums[2 * at] = static_cast<int16_t>(sums[0]);
      tile.sums[2 * at + 1] = static_cast<int16_t>(sums[1]);
    }
  }
}

int dot_half(const QuantProduct& p, int block, int row, int lane, int half) {
  const std::byte* codes = p.panel + p.format.block_offset(block);
  const int8_t* x = p.x.codes + QuantTile::code_at(block, row);
  int dot = 0;
  for (int i = half * kBlockColumns / 2; i < (half + 1) * kBlockColumns / 2; ++i) {
    dot += code_at(p.format, codes, i, lane) * x[i];
  }
  return dot;
}

float product_of_blocks(const QuantProduct& p, int row, int lane) {
  float acc = 0.0F;
  for (int b = 0; b < p.n_blocks; ++b) {
    const LaneScale w = lane_scale(p.format, p.panel, b, lane);
    const ptrdiff_t at = QuantTile::scale_at(b, row);
    const float xs = p.x.scales[at];
    const int dot = dot_half(p, b, row, lane, 0) + dot_half(p, b, row, lane, 1);
    acc = __builtin_fmaf(static_cast<float>(dot), xs * w.scale, acc);
    if (has_offset(p.format.scale)) {
      acc = __builtin_fmaf(w.offset, xs * static_cast<float>(p.x.sums[2 * at] + p.x.sums[2 * at + 1]), acc);
    }
  }
  return acc;
}

float product_of_groups(const QuantProduct& p, int row, int lane) {
  float acc = 0.0F;
  for (int first = 0; first < p.n_blocks; first += kGroupBlocks) {
    int dots = 0;
    int mins = 0;
    for (int b = first; b < first + kGroupBlocks && b < p.n_blocks; ++b) {
      for (int half = 0; half < 2; ++half) {
        const LaneInteger w = lane_integer(p.format, p.panel, b, has_halves(p.format.scale) ? half : 0, lane);
        dots += w.scale * dot_half(p, b, row, lane, half);
        mins += w.min * p.x.sums[2 * QuantTile::scale_at(b, row) + half];
      }
    }
    const LaneScale factor = lane_factor(p.format, p.panel, first, lane);
    const float xs = p.x.scales[QuantTile::scale_at(first, row)];
    acc = __builtin_fmaf(static_cast<float>(dots), xs * factor.scale, acc);
    if (has_offset(p.format.scale)) {
      acc = __builtin_fmaf(static_cast<float>(mins), xs * factor.offset, acc);
    }
  }
  return acc;
}

void quant_tile(const QuantProduct& p) noexcept {
  for (int row = 0; row < p.n_rows; ++row) {
    for (int lane = p.first_lane; lane < p.last_lane; ++lane) {
      p.y[row * p.ld + lane] =
          p.format.integer_scales() ? product_of_groups(p, row, lane) : product_of_blocks(p, row, lane);
    }
  }
}

void quant_panel(const QuantPanelProduct& p) noexcept {
  for (int tile = 0; tile * kTileRows < p.n_rows; ++tile) {
    quant_tile(tile_at(p, tile));
  }
}

float float_at(PanelCode code, const std::byte* panel, int columns, ptrdiff_t index) {
  if (code == PanelCode::kE4M3) {
    float scale;
    __builtin_memcpy(&scale, panel + columns * kLanes + index / kLanes / kE4M3Columns * 4, sizeof scale);
    return e4m3_to_float(static_cast<uint8_t>(panel[index])) * scale;
  }
  if (code == PanelCode::kF32) {
    float f;
    __builtin_memcpy(&f, panel + 4 * index, sizeof f);
    return f;
  }
  uint16_t h;
  __builtin_memcpy(&h, panel + 2 * index, sizeof h);
  if (code == PanelCode::kF16) {
    return half_to_float_bits(h);
  }
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

void float_rows(const FloatProduct& p) noexcept {
  for (int row = 0; row < p.n_rows; ++row) {
    const float* x = p.x + row * p.x_ld;
    for (int lane = p.first_lane; lane < p.last_lane; ++lane) {
      float acc = 0.0F;
      for (int k = 0; k < p.columns; ++k) {
        acc =
            __builtin_fmaf(float_at(p.code, p.panel, p.columns, static_cast<ptrdiff_t>(k) * kLanes + lane), x[k], acc);
      }
      p.y[row * p.y_ld + lane] = acc;
    }
  }
}

void swiglu(const float* gate, const float* up, int n, float limit, float weight, float* out) noexcept {
  for (int i = 0; i < n; ++i) {
    float g = gate[i];
    float u = up[i];
    if (limit > 0.0F) {
      g = g < limit ? g : limit;
      u = u < limit ? u : limit;
      u = u > -limit ? u : -limit;
    }
    out[i] = weight * (silu_scalar(g) * u);
  }
}

}  // namespace

const CpuKernels& kernels_scalar() noexcept {
  static const CpuKernels table = {
      "scalar", {quantize_row, quant_tile, quant_panel, float_rows, swiglu}, &kAttentionScalar, &kRowScalar};
  return table;
}

}  // namespace fathom::cpu
