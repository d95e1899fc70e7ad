// Search of the IQ formats: groups of 4 or 8 values become scale * entry, the entry taken from a grid, the scale shared
// by a sub-block and itself a small integer code times the block's F16 number.
//
// For one group the squared error of an entry is  const - 2 * scale * dot + scale^2 * norm,  where dot = sum of
// w * x * entry and norm = sum of w * entry^2 do not depend on the scale. Divided by the scale it is a line in the
// scale, so the entries that are best for some scale form the lower envelope of lines: a handful of the grid's
// hundreds. They are found once, exactly, and everything after (scales of sub-blocks, F16 number, integer codes) looks
// at these few only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "weights/blocks.h"

namespace fathom {

// An entry that is best for some scale.
struct Choice {
  float dot;
  float norm;
  uint16_t entry;

  [[nodiscard]] float height(float scale) const { return scale * norm - 2.0F * dot; }  // error over scale, less const
  [[nodiscard]] float cost(float scale) const { return scale * height(scale); }        // error, less const
};

struct Choices {
  static constexpr int kMax = 32;
  std::array<Choice, kMax> items;
  int count = 0;

  [[nodiscard]] const Choice& best(float scale) const;
  void put(const Choice& choice) { items[static_cast<size_t>(count++)] = choice; }
};

// A grid with its entries' values by column, so that loops over all entries run over contiguous memory.
class GridTable {
 public:
  template <size_t kWidth, size_t kEntries>
  explicit GridTable(const std::array<std::array<int8_t, kWidth>, kEntries>& grid, float offset = 0.0F)
      : width_(kWidth), entries_(kEntries), values_(kWidth * kEntries), norms_(kEntries) {
    for (size_t e = 0; e < kEntries; ++e) {
      for (size_t i = 0; i < kWidth; ++i) {
        const float value = static_cast<float>(grid[e][i]) + offset;
        values_[i * kEntries + e] = value;
        norms_[e] += value * value;
      }
    }
  }

  [[nodiscard]] size_t width() const { return width_; }
  [[nodiscard]] size_t entries() const { return entries_; }
  [[nodiscard]] const float* column(size_t i) const { return values_.data() + i * entries_; }
  [[nodiscard]] const float* norms() const { return norms_.data(); }  // sums of squares

 private:
  size_t width_;
  size_t entries_;
  std::vector<float> values_;
  std::vector<float> norms_;
};

// Scales worth looking at for values whose largest magnitude is amax: from mapping it beyond the largest level of the
// grid to well within it.
struct ScaleRange {
  float low;
  float high;
};
[[nodiscard]] ScaleRange scale_range(std::span<const float> x, float largest_level) noexcept;

// The entries of one or several tables that are best for some scale in the range; entry numbers count through the
// tables.
void find_choices(std::span<const GridTable* const> tables, const float* x, const float* w, const ScaleRange& range,
                  Choices& choices) noexcept;

// The scale at which the groups' best choices have the least error together, and that error relative to all zeros (<=
// 0).
struct GroupFit {
  float scale = 0.0F;
  float cost = 0.0F;
};
[[nodiscard]] GroupFit fit_groups(std::span<const Choices> groups, const ScaleRange& range) noexcept;

// A sub-block's scale is d * (offset + step * code), 0 <= code <= max_code.
struct IqScales {
  int n_subs;
  int max_code;
  float offset;
  float step;
};

struct IqFit {
  uint16_t d = 0;
  std::array<int, 16> codes{};
  std::array<uint16_t, 64> entries{};  // one per group
};

// groups: the same number for each sub-block, in order. ranges: one per sub-block.
[[nodiscard]] IqFit fit_iq_block(std::span<const Choices> groups, std::span<const ScaleRange> ranges,
                                 const IqScales& scales) noexcept;

}  // namespace fathom
