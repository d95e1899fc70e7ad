#include "weights/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/random_blocks.h"

namespace fathom {
namespace {

using test::hash_floats;
using test::kBlockSeed;
using test::kHashedBlocks;
using test::kStoredBlocks;
using test::random_blocks;

const std::string kDataDir = FATHOM_TEST_DATA_DIR "/dequant/";

std::vector<float> decode(DType dtype, const std::vector<std::byte>& bytes) {
  const DTypeInfo& info = dtype_info(dtype);
  const size_t n = bytes.size() / static_cast<size_t>(info.block_bytes) * static_cast<size_t>(info.block_size);
  std::vector<float> out(n);
  dequantize_row(dtype, bytes.data(), out.data(), static_cast<int64_t>(n));
  return out;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// --- Against values recorded from ggml (tests/data/dequant/README.md) ------------------------------------------------

class DequantizeRecorded : public testing::TestWithParam<DTypeInfo> {};

TEST_P(DequantizeRecorded, StoredBlocksDecodeToTheRecordedBits) {
  const DTypeInfo& info = GetParam();
  std::ifstream file(kDataDir + std::string(info.name) + ".bin", std::ios::binary);
  std::vector<std::byte> blocks(kStoredBlocks * static_cast<size_t>(info.block_bytes));
  std::vector<float> expected(kStoredBlocks * static_cast<size_t>(info.block_size));
  file.read(reinterpret_cast<char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
  file.read(reinterpret_cast<char*>(expected.data()), static_cast<std::streamsize>(expected.size() * sizeof(float)));
  ASSERT_TRUE(file.good() && file.peek() == EOF);
  const std::vector<float> values = decode(info.dtype, blocks);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i]))
        << "value " << i << ": " << values[i] << ", recorded " << expected[i];
  }
}

TEST_P(DequantizeRecorded, ManyBlocksDecodeToTheRecordedHash) {
  std::map<std::string, std::string> hashes;
  std::ifstream file(kDataDir + "hashes.txt");
  for (std::string name, hash; file >> name >> hash;) {
    hashes[name] = hash;
  }
  const std::vector<std::byte> blocks = random_blocks(GetParam().dtype, kHashedBlocks, kBlockSeed);
  EXPECT_EQ(hash_floats(decode(GetParam().dtype, blocks)),
            std::stoull(hashes.at(std::string(GetParam().name)), nullptr, 16));
}

// Everything that ggml can decode: not integers, float32, and the formats that GGUF lacks.
std::vector<DTypeInfo> recorded_types() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& info : all_dtypes()) {
    const bool plain = info.dtype == DType::kF32 || info.dtype == DType::kI32 || info.dtype == DType::kI64;
    if (info.ggml_type >= 0 && !plain) {
      types.push_back(info);
    }
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeRecorded, testing::ValuesIn(recorded_types()),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

// --- By definition ---------------------------------------------------------------------------------------------------

TEST(Dequantize, PlainTypesKeepTheirValues) {
  const std::vector<float> floats = {0.0F, -1.5F, 3.4e38F, 1e-45F};
  EXPECT_EQ(decode(DType::kF32, bytes_of(floats)), floats);
  EXPECT_EQ(decode(DType::kI32, bytes_of<int32_t>({-3, 129279, 0})), (std::vector{-3.0F, 129279.0F, 0.0F}));
  EXPECT_EQ(decode(DType::kI64, bytes_of<int64_t>({-3, 1LL << 40, 0})), (std::vector{-3.0F, 0x1p40F, 0.0F}));
}

TEST(Dequantize, RowsNeedNoAlignment) {
  std::vector<std::byte> bytes = random_blocks(DType::kQ4_K, 2, 5);
  const std::vector<float> expected = decode(DType::kQ4_K, bytes);
  bytes.insert(bytes.begin(), std::byte{0});
  std::vector<float> values(expected.size());
  dequantize_row(DType::kQ4_K, bytes.data() + 1, values.data(), static_cast<int64_t>(values.size()));
  EXPECT_EQ(hash_floats(values), hash_floats(expected));
}

TEST(Dequantize, CodesWithoutScalesAreTheirOwnValues) {
  EXPECT_EQ(decode(DType::kF8_E4M3, bytes_of<uint8_t>({0x38, 0xFE, 0x01})), (std::vector{1.0F, -448.0F, 0x1p-9F}));
  EXPECT_EQ(decode(DType::kF4_E2M1, bytes_of<uint8_t>({0x72, 0x1F})), (std::vector{1.0F, 6.0F, -6.0F, 0.5F}));
}

TEST(Dequantize, Fp8WeightUsesTheScaleOfItsTile) {
  // [5, 7] in tiles of 2 x 3: 3 x 3 scales. Every code is 1.0, so that a value is its tile's scale.
  const std::vector<uint8_t> codes(35, 0x38);
  const std::vector<uint8_t> scales = {127, 128, 129, 130, 131, 132, 133, 134, 135};
  const WeightSlice slice{reinterpret_cast<const std::byte*>(codes.data()),
                          reinterpret_cast<const std::byte*>(scales.data())};
  const Weight weight{"w", DType::kF8_E4M3, 5, 7, 2, 3, {&slice, 1}, nullptr};
  for (int row = 0; row < 5; ++row) {
    std::vector<float> out(7);
    dequantize_row(weight, 0, row, out.data());
    for (int col = 0; col < 7; ++col) {
      EXPECT_EQ(out[static_cast<size_t>(col)], std::ldexp(1.0F, row / 2 * 3 + col / 3)) << row << "," << col;
    }
  }
}

TEST(Dequantize, Fp4WeightUsesTheScalesOfItsRowAndSlice) {
  const std::vector<uint8_t> codes(2 * 32, 0x42);  // 1, 2, 1, 2, ...
  const std::vector<uint8_t> first_scales = {127, 126, 120, 119};
  const std::vector<uint8_t> second_scales = {255, 128, 0, 254};
  const WeightSlice slices[] = {
      {reinterpret_cast<const std::byte*>(codes.data()), reinterpret_cast<const std::byte*>(first_scales.data())},
      {reinterpret_cast<const std::byte*>(codes.data()), reinterpret_cast<const std::byte*>(second_scales.data())}};
  const Weight weight{"w", DType::kF4_E2M1, 2, 64, 1, 32, slices, nullptr};
  std::vector<float> out(64);
  dequantize_row(weight, 0, 1, out.data());
  EXPECT_EQ(out[0], 0x1p-7F);
  EXPECT_EQ(out[31], 0x1p-6F);
  EXPECT_EQ(out[32], 0x1p-8F);
  dequantize_row(weight, 1, 0, out.data());
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[31]));
  EXPECT_EQ(out[63], 4.0F);
  dequantize_row(weight, 1, 1, out.data());
  EXPECT_EQ(out[0], 0x1p-127F);
  EXPECT_EQ(out[33], std::numeric_limits<float>::infinity());
}

TEST(Dequantize, WeightRowsAndSlicesAreFoundByTheirOffset) {
  const std::vector<std::byte> bytes = random_blocks(DType::kQ8_0, 2 * 3 * 2, 9);  // two slices of [3, 64]
  const std::vector<float> all = decode(DType::kQ8_0, bytes);
  const size_t slice_bytes = bytes.size() / 2;
  const WeightSlice slices[] = {{bytes.data(), nullptr}, {bytes.data() + slice_bytes, nullptr}};
  const Weight weight{"w", DType::kQ8_0, 3, 64, 0, 0, slices, nullptr};
  for (int slice = 0; slice < 2; ++slice) {
    for (int row = 0; row < 3; ++row) {
      std::vector<float> out(64);
      dequantize_row(weight, slice, row, out.data());
      const auto first = all.begin() + (slice * 3 + row) * 64;
      EXPECT_TRUE(std::equal(out.begin(), out.end(), first)) << slice << " " << row;
    }
  }
}

}  // namespace
}  // namespace fathom
