// Tables of the IQ formats: the grids that their codes index, the signs, and the levels of IQ4.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace fathom {

template <size_t kWidth, size_t kEntries>
using IqGrid = std::array<std::array<int8_t, kWidth>, kEntries>;

extern const IqGrid<8, 256> kIq2XxsGrid;  // magnitudes 8, 25, 43
extern const IqGrid<8, 512> kIq2XsGrid;
extern const IqGrid<8, 1024> kIq2SGrid;
extern const IqGrid<4, 256> kIq3XxsGrid;  // magnitudes 4, 12, ..., 52, 62
extern const IqGrid<4, 512> kIq3SGrid;    // magnitudes 1, 3, ..., 15
extern const IqGrid<8, 2048> kIq1Grid;    // values -1, 0, 1: IQ1_S and IQ1_M

// Levels of IQ4_NL and IQ4_XS.
inline constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// Signs of eight values from the seven stored bits: bit j set means value j is negative; bit 7 makes their number even.
[[nodiscard]] constexpr uint8_t even_signs(unsigned seven_bits) {
  return static_cast<uint8_t>(seven_bits | (static_cast<unsigned>(std::popcount(seven_bits)) & 1U) << 7);
}

}  // namespace fathom
