// Activation rows as int8 codes in tiles (QuantTile). Owns its memory, sized once.
#pragma once

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "core/buffer.h"

namespace fathom::cpu {

class QuantisedRows {
 public:
  QuantisedRows() = default;
  QuantisedRows(int tiles, int columns)
      : blocks_(columns / kBlockColumns),
        codes_(static_cast<size_t>(tiles) * static_cast<size_t>(blocks_) * kTileRows * kBlockColumns),
        scales_(static_cast<size_t>(tiles) * static_cast<size_t>(blocks_) * kTileRows * sizeof(float)),
        sums_(static_cast<size_t>(tiles) * static_cast<size_t>(blocks_) * kTileRows * sizeof(int32_t)),
        low_sums_(sums_.size()) {}

  // From here on rows are `columns` wide; at most what the memory was made for.
  void set_columns(int columns) { blocks_ = columns / kBlockColumns; }
  [[nodiscard]] int blocks() const { return blocks_; }

  // Row `row` of tile `tile`, from `x`.
  void quantise(const LinearKernels& kernels, int tile, int row, const float* x) {
    const size_t at = first_row(tile);
    kernels.quantize_row(x, blocks_ * kBlockColumns, row, codes_.as<int8_t>().data() + at * kBlockColumns,
                         scales_.as<float>().data() + at, sums_.as<int32_t>().data() + at,
                         low_sums_.as<int32_t>().data() + at);
  }
  // The same row of another buffer of the same width.
  void copy_row(int tile, int row, const QuantisedRows& from, int from_tile, int from_row) {
    for (int b = 0; b < blocks_; ++b) {
      const size_t to_at = first_row(tile) + static_cast<size_t>(b * kTileRows + row);
      const size_t from_at = from.first_row(from_tile) + static_cast<size_t>(b * kTileRows + from_row);
      std::copy_n(from.codes_.as<int8_t>().data() + from_at * kBlockColumns, kBlockColumns,
                  codes_.as<int8_t>().data() + to_at * kBlockColumns);
      scales_.as<float>()[to_at] = from.scales_.as<float>()[from_at];
      sums_.as<int32_t>()[to_at] = from.sums_.as<int32_t>()[from_at];
      low_sums_.as<int32_t>()[to_at] = from.low_sums_.as<int32_t>()[from_at];
    }
  }

  // The tile from its block `first_block` on.
  [[nodiscard]] QuantTile tile(int tile, int first_block = 0) const {
    const size_t at = first_row(tile) + static_cast<size_t>(first_block) * kTileRows;
    return {codes_.as<int8_t>().data() + at * kBlockColumns, scales_.as<float>().data() + at,
            sums_.as<int32_t>().data() + at, low_sums_.as<int32_t>().data() + at};
  }

 private:
  [[nodiscard]] size_t first_row(int tile) const {
    return static_cast<size_t>(tile) * static_cast<size_t>(blocks_) * kTileRows;
  }

  int blocks_ = 0;
  HostBuffer codes_;
  HostBuffer scales_;
  HostBuffer sums_;
  HostBuffer low_sums_;
};

}  // namespace fathom::cpu
