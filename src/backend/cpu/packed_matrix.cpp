#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "core/scalar.h"
#include "weights/blocks.h"
#include "weights/dequantize.h"
#include "weights/iq_grids.h"
#include "weights/k_scales.h"

namespace fathom::cpu {
namespace {

constexpr std::array<int8_t, 16> kUnsigned = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr std::array<int8_t, 16> kOffset8 = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
// E2M1 doubled, so that all values are integers.
constexpr std::array<int8_t, 16> kE2M1Doubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// kNone: no panel format of its own.
PanelFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return {PanelCode::kQ8, PanelScale::kHalf};
    case DType::kQ4_0:
      return {PanelCode::kNibble, PanelScale::kHalf, kOffset8.data()};
    case DType::kQ4_1:
      return {PanelCode::kNibble, PanelScale::kHalfMin, kUnsigned.data()};
    case DType::kQ4_K:
      return {PanelCode::kNibble, PanelScale::kSuperMin, kUnsigned.data()};
    case DType::kIQ4_NL:
      return {PanelCode::kNibble, PanelScale::kHalf, kIq4Values.data()};
    case DType::kIQ4_XS:
      return {PanelCode::kNibble, PanelScale::kSuper, kIq4Values.data()};
    case DType::kMXFP4:
    case DType::kF4_E2M1:
      return {PanelCode::kNibble, PanelScale::kPower, kE2M1Doubled.data(), 0.5F};
    case DType::kQ2_K:
      return {PanelCode::kTwoBit, PanelScale::kSuperPair};
    case DType::kIQ2_XXS:
      return {.code = PanelCode::kGrid,
              .scale = PanelScale::kGridScale,
              .factor = 0.25F,
              .grid = kIq2XxsGrid.front().data()};
    case DType::kIQ3_XXS:
      return {.code = PanelCode::kGrid4,
              .scale = PanelScale::kGridScale,
              .factor = 0.5F,
              .grid = kIq3XxsGrid.front().data()};
    case DType::kQ3_K:
      return {PanelCode::kThreeBit, PanelScale::kSuperHalves};
    case DType::kQ5_K:
      return {PanelCode::kFiveBit, PanelScale::kSuperMin};
    case DType::kQ6_K:
      return {PanelCode::kSixBit, PanelScale::kSuperHalves};
    case DType::kBF16:
      return {PanelCode::kBF16, PanelScale::kNone};
    case DType::kF16:
      return {PanelCode::kF16, PanelScale::kNone};
    case DType::kF8_E4M3:
      return {PanelCode::kE4M3, PanelScale::kNone};
    default:
      return {PanelCode::kF32, PanelScale::kNone};
  }
}

// Codes of one block of one row, in column order: bytes (kQ8), or the two to six bits of the other formats.
using Codes = std::array<uint8_t, kBlockColumns>;

void halves(const uint8_t* qs, Codes& codes) {
  for (size_t j = 0; j < kBlockColumns / 2; ++j) {
    codes[j] = qs[j] & 0xF;
    codes[j + kBlockColumns / 2] = qs[j] >> 4;
  }
}

Codes block_codes(DType dtype, const std::byte* row, int b) {
  Codes codes{};
  const int super = b / kSuperBlocks;
  const int sub = b % kSuperBlocks;
  switch (dtype) {
    case DType::kQ8_0: {
      const auto block = load_block<BlockQ8_0>(row, b);
      std::memcpy(codes.data(), block.qs, codes.size());
      break;
    }
    case DType::kQ4_0:
      halves(load_block<BlockQ4_0>(row, b).qs, codes);
      break;
    case DType::kQ4_1:
      halves(load_block<BlockQ4_1>(row, b).qs, codes);
      break;
    case DType::kIQ4_NL:
      halves(load_block<BlockIQ4_NL>(row, b).qs, codes);
      break;
    case DType::kMXFP4:
      halves(load_block<BlockMXFP4>(row, b).qs, codes);
      break;
    case DType::kIQ4_XS:
      halves(load_block<BlockIQ4_XS>(row, super).qs + sub * (kBlockColumns / 2), codes);
      break;
    case DType::kQ4_K: {
      const auto block = load_block<BlockQ4_K>(row, super);
      for (size_t j = 0; j < kBlockColumns; ++j) {
        const uint8_t byte = block.qs[static_cast<size_t>(sub / 2 * kBlockColumns) + j];
        codes[j] = sub % 2 == 0 ? byte & 0xF : byte >> 4;
      }
      break;
    }
    case DType::kQ2_K: {
      const auto block = load_block<BlockQ2_K>(row, super);
      for (size_t j = 0; j < kBlockColumns; ++j) {
        codes[j] = block.qs[static_cast<size_t>(sub / 4 * kBlockColumns) + j] >> (sub % 4 * 2) & 3;
      }
      break;
    }
    case DType::kQ3_K: {
      const auto block = load_block<BlockQ3_K>(row, super);
      for (size_t j = 0; j < kBlockColumns; ++j) {
        const int low = block.qs[static_cast<size_t>(sub / 4 * kBlockColumns) + j] >> (sub % 4 * 2) & 3;
        codes[j] = static_cast<uint8_t>(low | (block.hmask[j] >> sub & 1) << 2);
      }
      break;
    }
    case DType::kQ5_K: {
      const auto block = load_block<BlockQ5_K>(row, super);
      for (size_t j = 0; j < kBlockColumns; ++j) {
        const uint8_t byte = block.qs[static_cast<size_t>(sub / 2 * kBlockColumns) + j];
        const int low = sub % 2 == 0 ? byte & 0xF : byte >> 4;
        codes[j] = static_cast<uint8_t>(low | (block.qh[j] >> sub & 1) << 4);
      }
      break;
    }
    case DType::kQ6_K: {
      // Value 128 h + 64 n + j (j < 64): nibble n of ql[64 h + j]; its upper bits: 2 (index within 128) / 32 of qh.
      const auto block = load_block<BlockQ6_K>(row, super);
      for (size_t j = 0; j < kBlockColumns; ++j) {
        const int within = sub % 4 * kBlockColumns + static_cast<int>(j);
        const uint8_t byte = block.ql[sub / 4 * 64 + within % 64];
        const int low = within < 64 ? byte & 0xF : byte >> 4;
        codes[j] =
            static_cast<uint8_t>(low | (block.qh[static_cast<size_t>(sub / 4 * 32) + j] >> (sub % 4 * 2) & 3) << 4);
      }
      break;
    }
    case DType::kF4_E2M1:
      for (size_t j = 0; j < kBlockColumns; ++j) {
        const auto byte = static_cast<uint8_t>(row[static_cast<size_t>(b * kBlockColumns / 2) + j / 2]);
        codes[j] = j % 2 == 0 ? byte & 0xF : byte >> 4;
      }
      break;
    default:
      break;
  }
  return codes;
}

void store_half(std::byte* out, int lane, uint16_t h) { std::memcpy(out + 2 * lane, &h, sizeof h); }

// Nibble of lanes l and l + 8 share a byte.
void store_lane_nibble(std::byte* out, int lane, uint8_t nibble) {
  out[lane % 8] |= std::byte{lane < 8 ? nibble : static_cast<uint8_t>(nibble << 4)};
}

// Scales of one row's block b into the panel; `after` follows the block's codes, `header` is its super-block's.
void store_scales(DType dtype, const std::byte* row, const std::byte* e8m0, int b, int lane, std::byte* after,
                  std::byte* header) {
  const int super = b / kSuperBlocks;
  const int sub = b % kSuperBlocks;
  switch (dtype) {
    case DType::kQ8_0:
      return store_half(after, lane, load_block<BlockQ8_0>(row, b).d);
    case DType::kQ4_0:
      return store_half(after, lane, load_block<BlockQ4_0>(row, b).d);
    case DType::kIQ4_NL:
      return store_half(after, lane, load_block<BlockIQ4_NL>(row, b).d);
    case DType::kQ4_1: {
      const auto block = load_block<BlockQ4_1>(row, b);
      store_half(after, lane, block.d);
      return store_half(after + 2 * kLanes, lane, block.m);
    }
    case DType::kMXFP4:
      after[lane] = std::byte{load_block<BlockMXFP4>(row, b).e};
      return;
    case DType::kF4_E2M1:
      after[lane] = e8m0[b];
      return;
    case DType::kIQ4_XS: {
      const auto block = load_block<BlockIQ4_XS>(row, super);
      const int low = block.scales_l[sub / 2] >> (sub % 2 * 4) & 0xF;
      const int high = block.scales_h >> (2 * sub) & 3;
      store_half(header, lane, block.d);
      header[2 * kLanes + sub * kLanes + lane] = static_cast<std::byte>(static_cast<int8_t>((low | high << 4) - 32));
      return;
    }
    case DType::kQ4_K: {
      const auto block = load_block<BlockQ4_K>(row, super);
      const ScaleMin s = k_scale_min(block.scales, sub);
      store_half(header, lane, block.d);
      store_half(header + 2 * kLanes, lane, block.dmin);
      std::byte* scales = header + 4 * kLanes + sub * kLanes;
      scales[lane] = static_cast<std::byte>(s.scale);
      scales[kSuperBlocks * kLanes + lane] = static_cast<std::byte>(s.min);
      return;
    }
    case DType::kQ2_K: {
      const auto block = load_block<BlockQ2_K>(row, super);
      store_half(header, lane, block.d);
      store_half(header + 2 * kLanes, lane, block.dmin);
      for (int h = 0; h < 2; ++h) {
        header[4 * kLanes + (2 * sub + h) * kLanes + lane] = std::byte{block.scales[2 * sub + h]};
      }
      return;
    }
    case DType::kQ3_K: {
      const auto block = load_block<BlockQ3_K>(row, super);
      store_half(header, lane, block.d);
      for (int h = 0; h < 2; ++h) {
        const auto scale = static_cast<int8_t>(q3_k_scale(block.scales, 2 * sub + h));
        header[2 * kLanes + (2 * sub + h) * kLanes + lane] = static_cast<std::byte>(scale);
      }
      return;
    }
    case DType::kQ6_K: {
      const auto block = load_block<BlockQ6_K>(row, super);
      store_half(header, lane, block.d);
      for (int h = 0; h < 2; ++h) {
        header[2 * kLanes + (2 * sub + h) * kLanes + lane] = static_cast<std::byte>(block.scales[2 * sub + h]);
      }
      return;
    }
    case DType::kQ5_K: {
      const auto block = load_block<BlockQ5_K>(row, super);
      const ScaleMin s = k_scale_min(block.scales, sub);
      store_half(header, lane, block.d);
      store_half(header + 2 * kLanes, lane, block.dmin);
      std::byte* scales = header + 4 * kLanes + sub * kLanes;
      scales[lane] = static_cast<std::byte>(s.scale);
      scales[kSuperBlocks * kLanes + lane] = static_cast<std::byte>(s.min);
      return;
    }
    case DType::kIQ2_XXS: {
      const auto block = load_block<BlockIQ2_XXS>(row, super);
      store_half(header, lane, block.d);
      return store_lane_nibble(after, lane, static_cast<uint8_t>(block.qs[4 * sub + 3] >> 12));
    }
    case DType::kIQ3_XXS: {
      const auto block = load_block<BlockIQ3_XXS>(row, super);
      store_half(header, lane, block.d);
      return store_lane_nibble(after, lane, static_cast<uint8_t>(block.signs[4 * sub + 3] >> 4));
    }
    default:
      return;
  }
}

// Bit 0 of each byte of a group, as four bits.
uint32_t mask_nibble(uint32_t group) { return (group & 0x01010101U) * 0x01020408U >> 24 & 0xFU; }

void store_mask(std::byte* masks, int group, int lane, uint32_t nibble) {
  masks[8 * group + lane / 2] |= static_cast<std::byte>(lane % 2 == 0 ? nibble : nibble << 4);
}

// A group's four codes are one word.
void store_codes(PanelCode code, const Codes& codes, int lane, std::byte* block) {
  std::array<uint32_t, kBlockColumns / 4> groups;
  std::memcpy(groups.data(), codes.data(), codes.size());
  const auto store = [&](std::byte* plane, size_t group, uint32_t word) {
    std::memcpy(plane + static_cast<ptrdiff_t>(group) * kGroupBytes + lane * 4, &word, sizeof word);
  };
  const auto store_nibbles = [&](std::byte* plane) {
    constexpr uint32_t kMask = 0x0F0F0F0FU;
    for (size_t g = 0; g < 4; ++g) {
      store(plane, g, (groups[g] & kMask) | (groups[g + 4] & kMask) << 4);
    }
  };
  const auto store_two_bits = [&](std::byte* plane, int shift) {
    const auto part = [&](size_t g) { return groups[g] >> shift & 0x03030303U; };
    for (size_t half = 0; half < 2; ++half) {
      const size_t g = 4 * half;
      store(plane, half, part(g) | part(g + 1) << 2 | part(g + 2) << 4 | part(g + 3) << 6);
    }
  };
  const auto store_masks = [&](std::byte* masks, int bit) {
    for (size_t g = 0; g < groups.size(); ++g) {
      store_mask(masks, static_cast<int>(g), lane, mask_nibble(groups[g] >> bit));
    }
  };
  switch (code) {
    case PanelCode::kQ8:
      for (size_t g = 0; g < groups.size(); ++g) {
        store(block, g, groups[g]);
      }
      break;
    case PanelCode::kTwoBit:
      store_two_bits(block, 0);
      break;
    case PanelCode::kThreeBit:
      store_two_bits(block, 0);
      store_masks(block + kTwoBitBlockBytes, 2);
      break;
    case PanelCode::kFiveBit:
      store_nibbles(block);
      store_masks(block + kNibbleBlockBytes, 4);
      break;
    case PanelCode::kSixBit:
      store_nibbles(block);
      store_two_bits(block + kNibbleBlockBytes, 4);
      break;
    default:
      store_nibbles(block);
  }
}

// Signs of eight values (columns 8 i and on) of one lane, into the masks of groups 2 i and 2 i + 1.
void store_signs(uint8_t signs, int i, int lane, std::byte* masks) {
  store_mask(masks, 2 * i, lane, signs & 0xFU);
  store_mask(masks, 2 * i + 1, lane, static_cast<uint32_t>(signs) >> 4);
}

// Grid indices and signs of one block of one row.
void store_grid(DType dtype, const std::byte* row, int b, int lane, std::byte* block) {
  const int super = b / kSuperBlocks;
  const int sub = b % kSuperBlocks;
  if (dtype == DType::kIQ2_XXS) {
    const auto source = load_block<BlockIQ2_XXS>(row, super);
    const uint16_t* words = source.qs + 4 * sub;
    const unsigned signs = words[2] | static_cast<unsigned>(words[3]) << 16;
    for (int i = 0; i < 4; ++i) {
      block[i * kLanes + lane] = static_cast<std::byte>(words[i / 2] >> (i % 2 * 8) & 0xFF);
      store_signs(even_signs(signs >> (7 * i) & 0x7FU), i, lane, block + 4 * kLanes);
    }
    return;
  }
  const auto source = load_block<BlockIQ3_XXS>(row, super);
  uint32_t signs = 0;
  std::memcpy(&signs, source.signs + 4 * sub, sizeof signs);
  for (int i = 0; i < 8; ++i) {
    block[i * kLanes + lane] = std::byte{source.qs[8 * sub + i]};
  }
  for (int i = 0; i < 4; ++i) {
    store_signs(even_signs(signs >> (7 * i) & 0x7FU), i, lane, block + 8 * kLanes);
  }
}

// Weights whose elements are used as the file has them, one, two or four bytes each. FP8 with other than the official
// tiles of 128 x 128 is expanded instead.
bool keeps_elements(const Weight& w) {
  return dtype_info(w.dtype).is_float ||
         (w.dtype == DType::kF8_E4M3 && w.scale_rows == kE4M3Columns && w.scale_cols == kE4M3Columns);
}

}  // namespace

PackedMatrix::PackedMatrix(const Weight& weight, bool repack, ThreadPool& pool)
    : weight_(weight), format_(format_of(weight.dtype)), panel_bytes_(format_.panel_bytes(weight.in_dim)) {
  expands_ = !format_.quantised() && !keeps_elements(weight);
  if (expands_) {
    format_ = {PanelCode::kF32, PanelScale::kNone};
    return;
  }
  if (!repack) {
    return;
  }
  const int64_t all = static_cast<int64_t>(weight.count()) * panels();
  data_ = HostBuffer(static_cast<size_t>(all) * panel_bytes_, HostBuffer::HugePages::kAdvise);
  pool.parallel_for(all, [&](Range range, int) {
    for (int64_t i = range.first; i < range.last; ++i) {
      pack_panel(static_cast<int>(i / panels()), static_cast<int>(i % panels()),
                 data_.bytes().data() + static_cast<size_t>(i) * panel_bytes_);
    }
  });
}

const std::byte* PackedMatrix::panel(int slice, int index, std::byte* room) const {
  if (data_.size() != 0) {
    return data_.bytes().data() +
           (static_cast<size_t>(slice) * static_cast<size_t>(panels()) + static_cast<size_t>(index)) * panel_bytes_;
  }
  if (expands_) {
    expand_panel(slice, index, room);
  } else {
    pack_panel(slice, index, room);
  }
  return room;
}

void PackedMatrix::pack_panel(int slice, int index, std::byte* out) const {
  std::memset(out, 0, panel_bytes_);
  if (format_.code == PanelCode::kE4M3) {
    pack_scales(slice, index, out + static_cast<size_t>(weight_.in_dim) * kLanes);
  }
  const WeightSlice& source = weight_.slices[static_cast<size_t>(slice)];
  const size_t row_bytes = dtype_row_bytes(weight_.dtype, weight_.in_dim);
  for (int lane = 0; lane < lanes(index); ++lane) {
    const auto row_index = static_cast<size_t>(index * kLanes + lane);
    const std::byte* row = source.codes + row_index * row_bytes;
    if (!format_.quantised()) {
      const size_t element = dtype_row_bytes(weight_.dtype, 1);
      for (size_t k = 0; k < static_cast<size_t>(weight_.in_dim); ++k) {
        std::memcpy(out + (k * kLanes + static_cast<size_t>(lane)) * element, row + k * element, element);
      }
      continue;
    }
    const std::byte* e8m0 =
        source.scales == nullptr ? nullptr : source.scales + row_index * static_cast<size_t>(blocks());
    for (int b = 0; b < blocks(); ++b) {
      std::byte* block = out + format_.block_offset(b);
      if (format_.code == PanelCode::kGrid || format_.code == PanelCode::kGrid4) {
        store_grid(weight_.dtype, row, b, lane, block);
      } else {
        store_codes(format_.code, block_codes(weight_.dtype, row, b), lane, block);
      }
      store_scales(weight_.dtype, row, e8m0, b, lane, block + format_.code_bytes(), out + format_.header_offset(b));
    }
  }
}

// One scale for every 128 columns: the 16 rows of a panel lie in one tile of 128.
void PackedMatrix::pack_scales(int slice, int index, std::byte* out) const {
  const int per_row = (weight_.in_dim + kE4M3Columns - 1) / kE4M3Columns;
  const std::byte* scales = weight_.slices[static_cast<size_t>(slice)].scales +
                            static_cast<ptrdiff_t>(index * kLanes / kE4M3Columns) * per_row;
  for (int i = 0; i < per_row; ++i) {
    const float scale = e8m0_to_f32(static_cast<uint8_t>(scales[i]));
    std::memcpy(out + static_cast<size_t>(i) * sizeof scale, &scale, sizeof scale);
  }
}

// As F32, [columns][16], and behind it room for a row.
void PackedMatrix::expand_panel(int slice, int index, std::byte* room) const {
  auto* out = reinterpret_cast<float*>(room);
  float* row = out + static_cast<ptrdiff_t>(weight_.in_dim) * kLanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane < lanes(index)) {
      dequantize_row(weight_, slice, index * kLanes + lane, row);
    } else {
      std::fill_n(row, weight_.in_dim, 0.0F);
    }
    for (int k = 0; k < weight_.in_dim; ++k) {
      out[k * kLanes + lane] = row[k];
    }
  }
}

size_t PackedMatrix::kernel_bytes() const {
  return format_.quantised()
             ? (gemm_workspace_bytes(blocks()) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment
             : 0;
}

size_t PackedMatrix::workspace_bytes() const {
  const size_t row = expands_ ? static_cast<size_t>(weight_.in_dim) * sizeof(float) : 0;
  return kernel_bytes() + (data_.size() != 0 ? 0 : format_.panel_bytes(weight_.in_dim) + row);
}

size_t packed_bytes(const Weight& weight) {
  const PanelFormat format = format_of(weight.dtype);
  if (!format.quantised() && !keeps_elements(weight)) {
    return 0;  // stays in the file
  }
  const auto panels = static_cast<size_t>((weight.out_dim + kLanes - 1) / kLanes);
  return static_cast<size_t>(weight.count()) * panels * format.panel_bytes(weight.in_dim);
}

}  // namespace fathom::cpu
