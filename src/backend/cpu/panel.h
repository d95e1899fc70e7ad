// How the CPU backend keeps matrices: panels of 16 output rows, interleaved so that one SIMD lane is one output row. A
// vector of products then accumulates 16 outputs at once, in the same order whatever the number of activation rows,
// which is what makes one row and a thousand rows round identically.
//
// Quantised panels are a sequence of blocks of 32 input columns. The codes of a block lie in groups of four columns,
// lane after lane (what vpdpbusd and tdpbssd take), the scales of its 16 rows beside them:
//
//   kQ8      [8 groups][16 lanes][4] signed codes, 512 bytes                        | scales: kHalf
//   kNibble  [4][16][4] bytes, 256 bytes: low nibbles are groups 0..3, high 4..7    | scales: any
//   kTwoBit  [2][16][4] bytes, 128 bytes: bits 2 s of the first half are group s,
//            of the second half group 4 + s                                         | scales: kSuperPair
//   kFiveBit   as kNibble, then [8] masks of 64 bits: bit 4 lane + column of mask g
//            is the fifth bit in group g; 320 bytes                                 | scales: kSuperMin
//   kSixBit  as kNibble, then as kTwoBit: the upper two bits; minus 32; 384 bytes   | scales: kSuperHalves
//   kThreeBit  as kTwoBit, then masks as kFiveBit: the third bit; minus 4;
//            192 bytes                                                              | scales: kSuperHalves
//   kGrid    [4][16] grid indices, then [8] sign masks of 64 bits, 128 bytes:       | scales: kGridScale
//            an index gives a lane's magnitudes in groups 2 i and 2 i + 1, bit
//            4 lane + column of mask g makes a magnitude of group g negative
//   kGrid4   [8][16] grid indices, an index a group, then masks as kGrid; 192 bytes | scales: kGridScale
//
//   kHalf     16 F16                                                                  after the codes
//   kHalfMin  16 F16 scales, 16 F16 offsets that are added                            after the codes
//   kPower    16 E8M0 codes                                                           after the codes
//   kSuper    per 8 blocks: 16 F16 d, then [8][16] signed integer scales              before the codes
//   kSuperMin per 8 blocks: 16 F16 d, 16 F16 dmin, [8][16] scales, [8][16] mins       before the codes
//   kSuperPair  per 8 blocks: 16 F16 d, 16 F16 dmin, [16][16] bytes: low nibble the scale, high nibble the min of 16
//             columns; a block has two                                                before the codes
//   kSuperHalves  per 8 blocks: 16 F16 d, [16][16] signed integer scales of 16 columns  before the codes
//   kGridScale  per 8 blocks: 16 F16 d; per block 8 bytes after the codes: nibble of lanes l and l + 8
//
// All but kHalf, kHalfMin and kPower are integers times a factor that the blocks of a group share: such products stay
// integers for a whole group.
//
// Float panels are [column][16 lanes] in F32, BF16, F16 or E4M3; E4M3 panels end with one F32 scale for every 128
// columns of all lanes.
//
// Included by ISA files: plain types and constexpr only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::cpu {

inline constexpr int kLanes = 16;
inline constexpr int kBlockColumns = 32;
inline constexpr int kTileRows = 16;     // activation rows that lie together
inline constexpr int kTileColumns = 64;  // of activations that lie together
inline constexpr int kGroupBlocks = 4;   // whose products are summed as integers
inline constexpr int kSuperBlocks = 8;   // blocks that share a header
inline constexpr int kGroupBytes = kLanes * 4;
inline constexpr int kQ8BlockBytes = kLanes * kBlockColumns;
inline constexpr int kNibbleBlockBytes = kQ8BlockBytes / 2;
inline constexpr int kTwoBitBlockBytes = kQ8BlockBytes / 4;
inline constexpr int kMaskBytes = kQ8BlockBytes / 8;
inline constexpr int kE4M3Columns = 128;  // that share a scale

enum class PanelCode : uint8_t {
  kQ8,
  kNibble,
  kTwoBit,
  kFiveBit,
  kSixBit,
  kThreeBit,
  kGrid,
  kGrid4,
  kF32,
  kBF16,
  kF16,
  kE4M3
};
enum class PanelScale : uint8_t {
  kNone,
  kHalf,
  kHalfMin,
  kPower,
  kSuper,
  kSuperMin,
  kSuperPair,
  kSuperHalves,
  kGridScale
};

// Member functions are always inlined: ISA files call them and must not leave a linkable copy compiled for their
// instruction set.
struct PanelFormat {
  PanelCode code = PanelCode::kF32;
  PanelScale scale = PanelScale::kNone;
  const int8_t* values = nullptr;  // kNibble: what the 16 codes stand for
  float factor = 1.0F;             // of scales: 0.5 where `values` are doubled; what a grid's scale is multiplied by
  const int8_t* grid = nullptr;    // kGrid: [256][8] magnitudes; kGrid4: [256][4]

  [[nodiscard, gnu::always_inline]] constexpr bool quantised() const { return scale != PanelScale::kNone; }
  // Scales within a block are integers; the rest is a factor of kGroupBlocks blocks.
  [[nodiscard, gnu::always_inline]] constexpr bool integer_scales() const {
    return quantised() && scale != PanelScale::kHalf && scale != PanelScale::kHalfMin && scale != PanelScale::kPower;
  }
  [[nodiscard, gnu::always_inline]] constexpr int code_bytes() const {
    switch (code) {
      case PanelCode::kQ8:
        return kQ8BlockBytes;
      case PanelCode::kNibble:
        return kNibbleBlockBytes;
      case PanelCode::kFiveBit:
        return kNibbleBlockBytes + kMaskBytes;
      case PanelCode::kSixBit:
        return kNibbleBlockBytes + kTwoBitBlockBytes;
      case PanelCode::kThreeBit:
      case PanelCode::kGrid4:
        return kTwoBitBlockBytes + kMaskBytes;
      default:
        return kTwoBitBlockBytes;
    }
  }
  // Bytes of one block and its own scales, and of the header that kSuperBlocks blocks share.
  [[nodiscard, gnu::always_inline]] constexpr int block_bytes() const {
    switch (scale) {
      case PanelScale::kHalf:
        return code_bytes() + 2 * kLanes;
      case PanelScale::kHalfMin:
        return code_bytes() + 4 * kLanes;
      case PanelScale::kPower:
        return code_bytes() + kLanes;
      case PanelScale::kGridScale:
        return code_bytes() + kLanes / 2;
      default:
        return code_bytes();
    }
  }
  [[nodiscard, gnu::always_inline]] constexpr int header_bytes() const {
    switch (scale) {
      case PanelScale::kSuper:
        return 2 * kLanes + kSuperBlocks * kLanes;
      case PanelScale::kSuperHalves:
        return 2 * kLanes + 2 * kSuperBlocks * kLanes;
      case PanelScale::kSuperMin:
      case PanelScale::kSuperPair:
        return 4 * kLanes + 2 * kSuperBlocks * kLanes;
      case PanelScale::kGridScale:
        return 2 * kLanes;
      default:
        return 0;
    }
  }
  [[nodiscard, gnu::always_inline]] constexpr size_t block_offset(int block) const {
    const int header = header_bytes();
    const int headers = header == 0 ? 0 : block / kSuperBlocks + 1;
    return static_cast<size_t>(block) * static_cast<size_t>(block_bytes()) +
           static_cast<size_t>(headers) * static_cast<size_t>(header);
  }
  [[nodiscard, gnu::always_inline]] constexpr size_t header_offset(int block) const {
    const int first = block / kSuperBlocks * kSuperBlocks;
    return block_offset(first) - static_cast<size_t>(header_bytes());
  }
  [[nodiscard, gnu::always_inline]] constexpr size_t panel_bytes(int columns) const {
    if (code == PanelCode::kE4M3) {
      return (static_cast<size_t>(columns) * kLanes +
              static_cast<size_t>((columns + kE4M3Columns - 1) / kE4M3Columns) * sizeof(float) + 63) /
             64 * 64;
    }
    if (!quantised()) {
      return static_cast<size_t>(columns) * kLanes * (code == PanelCode::kF32 ? 4 : 2);
    }
    const int blocks = columns / kBlockColumns;
    return static_cast<size_t>(blocks) * static_cast<size_t>(block_bytes()) +
           static_cast<size_t>((blocks + kSuperBlocks - 1) / kSuperBlocks) * static_cast<size_t>(header_bytes());
  }
};

// Activations as int8 in tiles of 16 rows: [tile][block pair][16][64] codes, and per [tile][block][16] a scale and the
// sums of the first and of the last 16 codes. A row has an even number of blocks; the codes of one that is there only
// for that may be anything. What lies in rows beyond the last is not read into any result.
struct QuantTile {
  const int8_t* codes = nullptr;  // of the tile's first block
  const float* scales = nullptr;  // the blocks of a group have the same where a format wants that
  const int16_t* sums = nullptr;  // pairs

  [[nodiscard, gnu::always_inline]] static constexpr ptrdiff_t code_at(int block, int row) {
    return (static_cast<ptrdiff_t>(block / 2) * kTileRows + row) * kTileColumns + block % 2 * kBlockColumns;
  }
  [[nodiscard, gnu::always_inline]] static constexpr ptrdiff_t scale_at(int block, int row) {
    return static_cast<ptrdiff_t>(block) * kTileRows + row;
  }
};

}  // namespace fathom::cpu
