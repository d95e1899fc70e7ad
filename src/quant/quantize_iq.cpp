// IQ2 and IQ3 formats: signs apart, magnitudes from a grid.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "quant/grid_search.h"
#include "quant/quantize_impl.h"
#include "weights/iq_grids.h"

namespace fathom {
namespace {

constexpr IqScales kIq2SubsOf32{8, 15, 0.125F, 0.25F};
constexpr IqScales kIq2SubsOf16{16, 15, 0.125F, 0.25F};
constexpr IqScales kIq3XxsSubs{8, 15, 0.25F, 0.5F};
constexpr IqScales kIq3SSubs{8, 15, 1.0F, 2.0F};

struct Magnitudes {
  std::array<float, kSuperBlock> values;  // negative where a sign could not be stored
  std::array<uint8_t, 32> signs{};        // of eight values
};

// Where only an even number of negative signs can be stored, the value that matters least gets the wrong sign.
Magnitudes split_signs(const float* x, const float* w, bool even) {
  Magnitudes m;
  for (size_t g = 0; g < m.signs.size(); ++g) {
    const size_t first = 8 * g;
    unsigned signs = 0;
    size_t least = first;
    for (size_t i = first; i < first + 8; ++i) {
      m.values[i] = std::fabs(x[i]);
      signs |= (std::signbit(x[i]) ? 1U : 0U) << (i - first);
      least = w[i] * x[i] * x[i] < w[least] * x[least] * x[least] ? i : least;
    }
    if (even && std::popcount(signs) % 2 != 0) {
      signs ^= 1U << (least - first);
      m.values[least] = -m.values[least];
    }
    m.signs[g] = static_cast<uint8_t>(signs);
  }
  return m;
}

IqFit fit_magnitudes(const Magnitudes& m, const float* w, const GridTable& table, float largest_level,
                     const IqScales& scales) {
  const size_t width = table.width();
  const size_t sub_size = kSuperBlock / static_cast<size_t>(scales.n_subs);
  std::array<Choices, 64> choices;
  std::array<ScaleRange, 16> ranges{};
  const std::span<Choices> groups = std::span(choices).first(kSuperBlock / width);
  for (size_t s = 0; s < static_cast<size_t>(scales.n_subs); ++s) {
    ranges[s] = scale_range(std::span(m.values).subspan(s * sub_size, sub_size), largest_level);
  }
  const GridTable* const tables[] = {&table};
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t first = g * width;
    find_choices(tables, m.values.data() + first, w + first, ranges[first / sub_size], groups[g]);
  }
  return fit_iq_block(groups, std::span(ranges).first(static_cast<size_t>(scales.n_subs)), scales);
}

// Adds `bits` to the nibble of number i, low one of a byte first.
void put_nibble(uint8_t* bytes, size_t i, int bits) {
  bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] | bits << (i % 2 * 4));
}

// Four times seven signs and the scale code, of sub-block s.
uint32_t signs_and_scale(const Magnitudes& m, const IqFit& fit, size_t s) {
  auto word = static_cast<uint32_t>(fit.codes[s]) << 28;
  for (size_t g = 0; g < 4; ++g) {
    word |= static_cast<uint32_t>(m.signs[4 * s + g] & 0x7F) << (7 * g);
  }
  return word;
}

}  // namespace

void quantize_block(const float* x, const float* w, BlockIQ2_XXS& block) noexcept {
  static const GridTable kTable(kIq2XxsGrid);
  const Magnitudes m = split_signs(x, w, true);
  const IqFit fit = fit_magnitudes(m, w, kTable, 43.0F, kIq2SubsOf32);
  block.d = fit.d;
  for (size_t s = 0; s < 8; ++s) {
    const uint16_t* entries = fit.entries.data() + 4 * s;
    const uint32_t word = signs_and_scale(m, fit, s);
    block.qs[4 * s] = static_cast<uint16_t>(entries[0] | entries[1] << 8);
    block.qs[4 * s + 1] = static_cast<uint16_t>(entries[2] | entries[3] << 8);
    block.qs[4 * s + 2] = static_cast<uint16_t>(word);
    block.qs[4 * s + 3] = static_cast<uint16_t>(word >> 16);
  }
}

void quantize_block(const float* x, const float* w, BlockIQ2_XS& block) noexcept {
  static const GridTable kTable(kIq2XsGrid);
  const Magnitudes m = split_signs(x, w, true);
  const IqFit fit = fit_magnitudes(m, w, kTable, 43.0F, kIq2SubsOf16);
  block.d = fit.d;
  for (size_t g = 0; g < 32; ++g) {
    block.qs[g] = static_cast<uint16_t>(fit.entries[g] | (m.signs[g] & 0x7F) << 9);
  }
  for (size_t s = 0; s < 16; ++s) {
    put_nibble(block.scales, s, fit.codes[s]);
  }
}

void quantize_block(const float* x, const float* w, BlockIQ2_S& block) noexcept {
  static const GridTable kTable(kIq2SGrid);
  const Magnitudes m = split_signs(x, w, false);
  const IqFit fit = fit_magnitudes(m, w, kTable, 43.0F, kIq2SubsOf16);
  block.d = fit.d;
  for (size_t g = 0; g < 32; ++g) {
    block.qs[g] = static_cast<uint8_t>(fit.entries[g]);
    block.qh[g / 4] = static_cast<uint8_t>(block.qh[g / 4] | (fit.entries[g] >> 8) << (g % 4 * 2));
    block.signs[g] = m.signs[g];
  }
  for (size_t s = 0; s < 16; ++s) {
    put_nibble(block.scales, s, fit.codes[s]);
  }
}

void quantize_block(const float* x, const float* w, BlockIQ3_XXS& block) noexcept {
  static const GridTable kTable(kIq3XxsGrid);
  const Magnitudes m = split_signs(x, w, true);
  const IqFit fit = fit_magnitudes(m, w, kTable, 62.0F, kIq3XxsSubs);
  block.d = fit.d;
  for (size_t g = 0; g < 64; ++g) {
    block.qs[g] = static_cast<uint8_t>(fit.entries[g]);
  }
  for (size_t s = 0; s < 8; ++s) {
    const uint32_t word = signs_and_scale(m, fit, s);
    std::memcpy(block.signs + 4 * s, &word, sizeof(word));
  }
}

void quantize_block(const float* x, const float* w, BlockIQ3_S& block) noexcept {
  static const GridTable kTable(kIq3SGrid);
  const Magnitudes m = split_signs(x, w, false);
  const IqFit fit = fit_magnitudes(m, w, kTable, 15.0F, kIq3SSubs);
  block.d = fit.d;
  for (size_t g = 0; g < 64; ++g) {
    block.qs[g] = static_cast<uint8_t>(fit.entries[g]);
    block.qh[g / 8] = static_cast<uint8_t>(block.qh[g / 8] | (fit.entries[g] >> 8) << (g % 8));
  }
  std::memcpy(block.signs, m.signs.data(), m.signs.size());
  for (size_t s = 0; s < 8; ++s) {
    put_nibble(block.scales, s, fit.codes[s]);
  }
}

}  // namespace fathom
