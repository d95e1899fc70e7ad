// Activation rows as int8 codes in tiles (QuantTile). Owns its memory, sized once.
#pragma once

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "core/buffer.h"

namespace fathom::cpu {

class QuantisedRows {
 public:
  QuantisedRows() = default;
  // Room for `tiles` tiles of rows of up to `columns` values in up to `segments` parts.
  QuantisedRows(int tiles, int columns, int segments = 1) {
    const auto rows = static_cast<size_t>(tiles) * kTileRows;
    const auto blocks = static_cast<size_t>((columns + kBlockColumns - 1) / kBlockColumns + 2 * segments);
    codes_ = HostBuffer(rows * blocks * kBlockColumns);
    scales_ = HostBuffer(rows * blocks * sizeof(float));
    sums_ = HostBuffer(rows * blocks * 2 * sizeof(int16_t));
  }

  // From here on rows are `segments` parts of `columns` values each; a product meets one part. At most what the memory
  // was made for.
  void set_shape(int columns, int segments = 1) {
    columns_ = columns;
    segments_ = segments;
  }
  [[nodiscard]] size_t bytes() const { return codes_.size() + scales_.size() + sums_.size(); }
  // Of a part; of a row.
  [[nodiscard]] int part_blocks() const { return (columns_ / kBlockColumns + 1) / 2 * 2; }
  [[nodiscard]] int blocks() const { return segments_ * part_blocks(); }

  // Row `row` of tile `tile`, from `x`; `group` blocks share a scale.
  void quantise(const LinearKernels& kernels, int group, int tile, int row, const float* x) {
    for (int s = 0; s < segments_; ++s) {
      const size_t at = first_row(tile) + static_cast<size_t>(s * part_blocks()) * kTileRows;
      kernels.quantize_row(x + static_cast<ptrdiff_t>(s) * columns_, columns_, group, row,
                           {.codes = codes_.as<int8_t>().data() + at * kBlockColumns,
                            .scales = scales_.as<float>().data() + at,
                            .sums = sums_.as<int16_t>().data() + 2 * at});
    }
  }
  // The same row of another buffer of the same shape.
  void copy_row(int tile, int row, const QuantisedRows& from, int from_tile, int from_row) {
    const QuantTile source = from.tile(from_tile);
    const size_t at = first_row(tile);
    int8_t* codes = codes_.as<int8_t>().data() + at * kBlockColumns;
    float* scales = scales_.as<float>().data() + at;
    int16_t* sums = sums_.as<int16_t>().data() + 2 * at;
    for (int b = 0; b < blocks(); b += 2) {
      std::copy_n(source.codes + QuantTile::code_at(b, from_row), kTileColumns, codes + QuantTile::code_at(b, row));
    }
    for (int b = 0; b < blocks(); ++b) {
      const ptrdiff_t to = QuantTile::scale_at(b, row);
      const ptrdiff_t source_at = QuantTile::scale_at(b, from_row);
      scales[to] = source.scales[source_at];
      std::copy_n(source.sums + 2 * source_at, 2, sums + 2 * to);
    }
  }

  // The tile from its block `first_block` on, an even number.
  [[nodiscard]] QuantTile tile(int tile, int first_block = 0) const {
    const size_t at = first_row(tile) + static_cast<size_t>(first_block) * kTileRows;
    return {codes_.as<int8_t>().data() + at * kBlockColumns, scales_.as<float>().data() + at,
            sums_.as<int16_t>().data() + 2 * at};
  }

 private:
  [[nodiscard]] size_t first_row(int tile) const {
    return static_cast<size_t>(tile) * static_cast<size_t>(blocks()) * kTileRows;
  }

  int columns_ = 0;
  int segments_ = 1;
  HostBuffer codes_;
  HostBuffer scales_;
  HostBuffer sums_;
};

}  // namespace fathom::cpu
