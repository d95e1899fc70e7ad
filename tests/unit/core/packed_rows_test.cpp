#include "core/packed_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/scalar.h"

namespace fathom {
namespace {

std::vector<float> normal_values(int n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    v = normal(rng);
  }
  return x;
}

TEST(PackedRows, SizesAtTheRealShape) {
  static_assert(KvRowLayout{448, 64}.bytes() == 583);
  static_assert(IndexRowLayout{128}.bytes() == 68);
  EXPECT_EQ((KvRowLayout{448, 64}.scales_offset()), 448U);
  EXPECT_EQ((KvRowLayout{448, 64}.rope_offset()), 455U);
  EXPECT_EQ((IndexRowLayout{128}.scales_offset()), 64U);
}

TEST(PackedRows, KvRowUnpacksToSimulatedCodesAndBf16RotaryDims) {
  for (const KvRowLayout layout : {KvRowLayout{448, 64}, KvRowLayout{24, 8}, KvRowLayout{65, 3}, KvRowLayout{64, 0}}) {
    const std::vector<float> row = normal_values(layout.dims(), 5);
    std::vector<std::byte> packed(layout.bytes());
    std::vector<float> unpacked(row.size());
    pack_kv_row(layout, row, packed);
    unpack_kv_row(layout, packed, unpacked);

    std::vector<float> expected = row;
    const auto nope = static_cast<size_t>(layout.nope);
    fp8_simulate(std::span(expected).first(nope));
    for (float& v : std::span(expected).subspan(nope)) {
      v = bf16_to_f32(f32_to_bf16(v));
    }
    EXPECT_EQ(unpacked, expected) << layout.nope << "+" << layout.rope;

    std::vector<std::byte> again(layout.bytes());
    std::vector<float> unpacked_again(row.size());
    pack_kv_row(layout, unpacked, again);
    unpack_kv_row(layout, again, unpacked_again);
    EXPECT_EQ(unpacked_again, unpacked);
  }
}

TEST(PackedRows, KvRowBytesAreWhereTheLayoutSays) {
  const KvRowLayout layout{66, 2};
  std::vector<float> row(68, 0.0F);
  row[0] = 448.0F;
  row[65] = -4.0F;  // second group: 4 / 448 rounds up to 2^-6, and -4 * 2^6 = -256
  row[66] = 1.0F;
  row[67] = -2.0F;
  std::vector<std::byte> packed(layout.bytes());
  pack_kv_row(layout, row, packed);
  ASSERT_EQ(packed.size(), 66U + 2 + 4);
  EXPECT_EQ(packed[0], std::byte{0x7E});
  EXPECT_EQ(packed[1], std::byte{0x00});
  EXPECT_EQ(packed[65], std::byte{0xF8});
  EXPECT_EQ(packed[66], std::byte{127});
  EXPECT_EQ(packed[67], std::byte{127 - 6});
  EXPECT_EQ(packed[68], std::byte{0x80});
  EXPECT_EQ(packed[69], std::byte{0x3F});
  EXPECT_EQ(packed[70], std::byte{0x00});
  EXPECT_EQ(packed[71], std::byte{0xC0});
}

TEST(PackedRows, IndexRowUnpacksToSimulatedValues) {
  for (const int dims : {128, 16, 32, 64}) {
    const IndexRowLayout layout{dims};
    std::vector<float> row = normal_values(dims, 6);
    std::vector<std::byte> packed(layout.bytes());
    std::vector<float> unpacked(row.size());
    pack_index_row(layout, row, packed);
    unpack_index_row(layout, packed, unpacked);
    fp4_simulate(row);
    EXPECT_EQ(unpacked, row) << dims;
  }
}

TEST(PackedRows, IndexRowBytesAreWhereTheLayoutSays) {
  const IndexRowLayout layout{64};
  std::vector<float> row(64, 0.0F);
  row[1] = 6.0F;
  row[32] = -3.0F;  // scale 1/2
  std::vector<std::byte> packed(layout.bytes());
  pack_index_row(layout, row, packed);
  ASSERT_EQ(packed.size(), 32U + 2);
  EXPECT_EQ(packed[0], std::byte{0x70});
  EXPECT_EQ(packed[16], std::byte{0x0F});
  EXPECT_EQ(packed[32], std::byte{127});
  EXPECT_EQ(packed[33], std::byte{126});
}

}  // namespace
}  // namespace fathom
