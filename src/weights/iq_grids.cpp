#include "weights/iq_grids.h"

namespace fathom {
namespace {

#include "weights/iq_grid_codes.inc"

// kLevels[code] for each of an entry's codes of kBits bits.
template <size_t kWidth, size_t kBits, size_t kEntries, size_t kLevels>
constexpr IqGrid<kWidth, kEntries> expand(const std::array<uint16_t, kEntries>& codes,
                                          const std::array<int8_t, kLevels>& levels) {
  IqGrid<kWidth, kEntries> grid{};
  for (size_t entry = 0; entry < kEntries; ++entry) {
    for (size_t i = 0; i < kWidth; ++i) {
      grid[entry][i] = levels[(codes[entry] >> (i * kBits)) & ((1U << kBits) - 1U)];
    }
  }
  return grid;
}

constexpr std::array<int8_t, 3> kIq2Levels = {8, 25, 43};
constexpr std::array<int8_t, 8> kIq3XxsLevels = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<int8_t, 8> kIq3SLevels = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr std::array<int8_t, 3> kIq1Levels = {-1, 0, 1};

}  // namespace

constexpr IqGrid<8, 256> kIq2XxsGrid = expand<8, 2>(kIq2XxsCodes, kIq2Levels);
constexpr IqGrid<8, 512> kIq2XsGrid = expand<8, 2>(kIq2XsCodes, kIq2Levels);
constexpr IqGrid<8, 1024> kIq2SGrid = expand<8, 2>(kIq2SCodes, kIq2Levels);
constexpr IqGrid<4, 256> kIq3XxsGrid = expand<4, 3>(kIq3XxsCodes, kIq3XxsLevels);
constexpr IqGrid<4, 512> kIq3SGrid = expand<4, 3>(kIq3SCodes, kIq3SLevels);
constexpr IqGrid<8, 2048> kIq1Grid = expand<8, 2>(kIq1Codes, kIq1Levels);

}  // namespace fathom
