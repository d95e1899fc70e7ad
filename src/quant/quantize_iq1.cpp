// IQ1 formats: ternary groups of eight, shifted by an eighth up or down.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "quant/grid_search.h"
#include "quant/quantize_impl.h"
#include "weights/iq_grids.h"

namespace fathom {
namespace {

constexpr IqScales kIq1SSubs{8, 7, 1.0F, 2.0F};
constexpr IqScales kIq1MSubs{16, 7, 1.0F, 2.0F};
constexpr float kLargestLevel = 1.125F;
constexpr size_t kEntries = 2048;

const GridTable& shifted_up() {
  static const GridTable kTable(kIq1Grid, 0.125F);
  return kTable;
}

const GridTable& shifted_down() {
  static const GridTable kTable(kIq1Grid, -0.125F);
  return kTable;
}

}  // namespace

void quantize_block(const float* x, const float* w, BlockIQ1_S& block) noexcept {
  std::array<Choices, 32> groups;
  std::array<ScaleRange, 8> ranges{};
  std::array<bool, 8> down{};
  for (size_t s = 0; s < 8; ++s) {
    ranges[s] = scale_range(std::span(x + 32 * s, 32), kLargestLevel);
    const std::span<Choices> sub = std::span(groups).subspan(4 * s, 4);
    std::array<Choices, 4> sub_down;
    const GridTable* const up_table[] = {&shifted_up()};
    const GridTable* const down_table[] = {&shifted_down()};
    for (size_t g = 0; g < 4; ++g) {
      const size_t first = 32 * s + 8 * g;
      find_choices(up_table, x + first, w + first, ranges[s], sub[g]);
      find_choices(down_table, x + first, w + first, ranges[s], sub_down[g]);
    }
    down[s] = fit_groups(sub_down, ranges[s]).cost < fit_groups(sub, ranges[s]).cost;
    if (down[s]) {
      std::copy(sub_down.begin(), sub_down.end(), sub.begin());
    }
  }
  const IqFit fit = fit_iq_block(groups, ranges, kIq1SSubs);
  block.d = fit.d;
  for (size_t s = 0; s < 8; ++s) {
    int high = fit.codes[s] << 12 | (down[s] ? 0x8000 : 0);
    for (size_t g = 0; g < 4; ++g) {
      const uint16_t entry = fit.entries[4 * s + g];
      block.qs[4 * s + g] = static_cast<uint8_t>(entry);
      high |= (entry >> 8) << (3 * g);
    }
    block.qh[s] = static_cast<uint16_t>(high);
  }
}

void quantize_block(const float* x, const float* w, BlockIQ1_M& block) noexcept {
  std::array<Choices, 32> groups;
  std::array<ScaleRange, 16> ranges{};
  const GridTable* const tables[] = {&shifted_up(), &shifted_down()};
  for (size_t g = 0; g < 32; ++g) {
    const size_t s = g / 2;
    ranges[s] = scale_range(std::span(x + 16 * s, 16), kLargestLevel);
    find_choices(tables, x + 8 * g, w + 8 * g, ranges[s], groups[g]);
  }
  const IqFit fit = fit_iq_block(groups, ranges, kIq1MSubs);
  for (size_t g = 0; g < 32; ++g) {
    const size_t entry = fit.entries[g] % kEntries;
    const size_t nibble = entry >> 8 | (fit.entries[g] >= kEntries ? 8U : 0U);
    block.qs[g] = static_cast<uint8_t>(entry);
    block.qh[g / 2] = static_cast<uint8_t>(block.qh[g / 2] | nibble << (g % 2 * 4));
  }
  for (size_t word = 0; word < 4; ++word) {
    unsigned bits = (fit.d >> (4 * word) & 0xFU) << 12;
    for (size_t i = 0; i < 4; ++i) {
      bits |= static_cast<unsigned>(fit.codes[4 * word + i]) << (3 * i);
    }
    const auto stored = static_cast<uint16_t>(bits);
    std::memcpy(block.scales + 2 * word, &stored, sizeof(stored));
  }
}

}  // namespace fathom
