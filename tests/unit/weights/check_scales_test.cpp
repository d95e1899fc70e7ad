#include "weights/check_scales.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

TEST(CheckScales, FindsNaNApartFromTheCodes) {
  std::vector<std::byte> scales(6, std::byte{127});
  const std::vector<std::byte> codes(300 * 256, std::byte{255});  // codes may be anything
  const std::array<WeightSlice, 2> slices = {WeightSlice{codes.data(), scales.data()},
                                             WeightSlice{codes.data(), scales.data()}};
  Weight w{.name = "blk.0.x",
           .dtype = DType::kF8_E4M3,
           .out_dim = 300,
           .in_dim = 256,
           .scale_rows = 128,
           .scale_cols = 128,
           .slices = slices};
  EXPECT_NO_THROW(check_scales(w));
  scales[5] = std::byte{255};
  EXPECT_ERROR(check_scales(w), ErrorCode::kBadModel, "blk.0.x: scale 5 of matrix 0 is NaN (E8M0 code 255)");
}

TEST(CheckScales, FindsNaNInsideBlocks) {
  std::vector<std::byte> blocks(2 * 3 * 17, std::byte{255});
  for (size_t i = 0; i < 6; ++i) {
    blocks[i * 17] = std::byte{120};
  }
  const std::array<WeightSlice, 1> slices = {WeightSlice{blocks.data(), nullptr}};
  const Weight w{.name = "blk.0.x", .dtype = DType::kMXFP4, .out_dim = 2, .in_dim = 96, .slices = slices};
  EXPECT_NO_THROW(check_scales(w));
  blocks[4 * 17] = std::byte{255};
  EXPECT_ERROR(check_scales(w), ErrorCode::kBadModel, "blk.0.x: scale 4 of matrix 0 is NaN");
}

TEST(CheckScales, PassesTypesWithoutE8M0) {
  const std::vector<std::byte> values(64, std::byte{255});
  const std::array<WeightSlice, 1> slices = {WeightSlice{values.data(), nullptr}};
  EXPECT_NO_THROW(check_scales({.name = "x", .dtype = DType::kBF16, .out_dim = 4, .in_dim = 8, .slices = slices}));
}

}  // namespace
}  // namespace fathom
