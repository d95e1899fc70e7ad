// Kernels of the cpu backend's cache rows against core/, bit for bit, and what selects the best entries.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/top_entries.h"
#include "core/error.h"
#include "core/packed_rows.h"
#include "core/scalar.h"

namespace fathom::cpu {
namespace {

class CpuKernelsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      kernels_ = &select_kernels(GetParam());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    ASSERT_EQ(kernels_->isa, GetParam());
  }
  [[nodiscard]] const RowKernels& rows() const { return *kernels_->rows; }
  [[nodiscard]] const AttentionKernels& attention() const { return *kernels_->attention; }

 private:
  const CpuKernels* kernels_ = nullptr;
};

// Values of all magnitudes, so that both ends of every format and its ties are met.
std::vector<float> wide_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) {
    const auto exponent = static_cast<int>(random() % 40) - 28;
    const auto mantissa = static_cast<float>(random() % 32 + 16) / 16.0F;  // often exactly between two codes
    v[i] = std::ldexp(random() % 3 == 0 ? mantissa : mantissa + 1e-3F, exponent) * (random() % 2 == 0 ? 1.0F : -1.0F);
  }
  return v;
}

template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "at " << i;
    }
  }
  return ::testing::AssertionSuccess();
}

constexpr int kLengths[] = {1, 15, 16, 17, 63, 64, 65, 130, 448};

TEST_P(CpuKernelsTest, Fp8RoundingMatchesCore) {
  for (const int n : kLengths) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::vector<float> got = wide_values(static_cast<size_t>(n), seed);
      std::vector<float> expected = got;
      rows().round_fp8(got.data(), n);
      fp8_simulate(expected);
      EXPECT_TRUE(same_bits(got, expected)) << n << " values, seed " << seed;
    }
  }
}

TEST_P(CpuKernelsTest, ZerosAndTinyValuesRoundAsCoreDoes) {
  std::vector<float> got = {0.0F, -0.0F, 1e-30F, -1e-30F, 1e-45F, 1e-4F, -3e-7F};
  std::vector<float> expected = got;
  rows().round_fp8(got.data(), static_cast<int>(got.size()));
  fp8_simulate(expected);
  EXPECT_TRUE(same_bits(got, expected));
  got = {0.0F, -0.0F, 1e-30F, -1e-30F, 1e-38F};
  expected = got;
  rows().round_fp4(got.data(), static_cast<int>(got.size()));
  fp4_simulate(expected);
  EXPECT_TRUE(same_bits(got, expected));
}

TEST_P(CpuKernelsTest, GroupsWithNanOrInfinityBecomeNan) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(70, 1.0F);
    x[3] = bad;
    std::vector<float> y = x;
    rows().round_fp8(x.data(), 70);
    rows().round_fp4(y.data(), 70);
    for (int i = 0; i < 70; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(std::isnan(x[at]), i < kFp8Group) << i;
      EXPECT_EQ(std::isnan(y[at]), i < kFp4Group) << i;
    }
  }
}

TEST_P(CpuKernelsTest, Fp4RoundingMatchesCore) {
  for (const int n : kLengths) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::vector<float> got = wide_values(static_cast<size_t>(n), seed);
      std::vector<float> expected = got;
      rows().round_fp4(got.data(), n);
      fp4_simulate(expected);
      EXPECT_TRUE(same_bits(got, expected)) << n << " values, seed " << seed;
    }
  }
}

TEST_P(CpuKernelsTest, Bf16RoundingMatchesCore) {
  std::vector<float> got = wide_values(1000, 1);
  got[7] = std::numeric_limits<float>::infinity();
  got[8] = std::numeric_limits<float>::quiet_NaN();
  got[9] = std::numeric_limits<float>::max();
  std::vector<float> expected = got;
  rows().round_bf16(got.data(), 1000);
  std::transform(expected.begin(), expected.end(), expected.begin(),
                 [](float v) { return bf16_to_f32(f32_to_bf16(v)); });
  EXPECT_TRUE(same_bits(got, expected));
}

TEST_P(CpuKernelsTest, HadamardMatchesCore) {
  for (int n = 1; n <= 512; n *= 2) {
    std::vector<float> got = wide_values(static_cast<size_t>(n), 3);
    std::vector<float> expected = got;
    rows().hadamard(got.data(), n);
    hadamard(expected);
    EXPECT_TRUE(same_bits(got, expected)) << n;
  }
}

TEST_P(CpuKernelsTest, PackedRowsMatchCore) {
  for (const KvRowLayout layout : {KvRowLayout{448, 64}, KvRowLayout{50, 14}, KvRowLayout{3, 2}, KvRowLayout{64, 64}}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::vector<float> row = wide_values(static_cast<size_t>(layout.dims()), seed);
      std::vector<std::byte> got(layout.bytes());
      std::vector<std::byte> expected(layout.bytes());
      rows().pack_kv(row.data(), layout.nope, layout.rope, got.data());
      pack_kv_row(layout, row, expected);
      EXPECT_EQ(got, expected) << layout.nope << " + " << layout.rope << ", seed " << seed;

      std::vector<float> unpacked(row.size());
      std::vector<float> values(row.size());
      attention().unpack_kv(expected.data(), layout.nope, layout.rope, unpacked.data());
      unpack_kv_row(layout, expected, values);
      EXPECT_TRUE(same_bits(unpacked, values)) << layout.nope << " + " << layout.rope << ", seed " << seed;
    }
  }
}

TEST_P(CpuKernelsTest, EveryCodeUnpacksAsInCore) {
  const KvRowLayout layout{256, 2};
  std::vector<std::byte> packed(layout.bytes());
  for (size_t i = 0; i < 256; ++i) {
    packed[i] = static_cast<std::byte>(i);
  }
  for (size_t g = 0; g < 4; ++g) {
    packed[layout.scales_offset() + g] = static_cast<std::byte>(g == 0 ? 1 : 100 + 40 * g);
  }
  std::vector<float> got(258);
  std::vector<float> expected(258);
  attention().unpack_kv(packed.data(), layout.nope, layout.rope, got.data());
  unpack_kv_row(layout, packed, expected);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i]) << i;
  }
}

TEST_P(CpuKernelsTest, TileKeysAreTheSameFromRowsAndFromFloats) {
  const TileAttentionKernels* tiles = attention().tiles;
  if (tiles == nullptr) {
    GTEST_SKIP() << "no matrix units in " << GetParam();
  }
  const KvRowLayout layout{448, 64};
  std::mt19937 random(1);
  std::vector<std::byte> row(layout.bytes());
  std::vector<float> values(static_cast<size_t>(layout.dims()));
  std::vector<uint16_t> from_row(static_cast<size_t>(kTileKeys * layout.dims()));
  std::vector<uint16_t> from_floats(from_row.size());
  for (int key = 0; key < kTileKeys; ++key) {
    for (int i = 0; i < layout.nope; ++i) {
      const auto code = static_cast<uint8_t>(random() & 0xFFU);
      row[static_cast<size_t>(i)] = std::byte{(code & 0x7FU) == kE4M3Nan ? uint8_t{0} : code};
    }
    for (int g = 0; g < layout.n_scales(); ++g) {
      row[layout.scales_offset() + static_cast<size_t>(g)] = static_cast<std::byte>(105 + random() % 40);
    }
    for (size_t i = layout.rope_offset(); i < layout.bytes(); i += 2) {
      row[i] = static_cast<std::byte>(random() & 0xFFU);
      row[i + 1] = static_cast<std::byte>(random() % 2 * 0x80U + 0x30U + random() % 16U);
    }
    tiles->unpack_key(row.data(), layout.nope, layout.rope, key, from_row.data());
    unpack_kv_row(layout, row, values);
    tiles->set_key(values.data(), layout.dims(), key, from_floats.data());
  }
  EXPECT_EQ(from_row, from_floats);

  row[layout.scales_offset()] = std::byte{kE8M0Nan};
  tiles->unpack_key(row.data(), layout.nope, layout.rope, 0, from_row.data());
  EXPECT_TRUE(std::isnan(bf16_to_f32(from_row[0])));
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuKernelsTest, testing::Values("scalar", "avx2", "avx512", "amx"),
                         [](const auto& tested) { return tested.param; });

TEST(TopEntries, KeepsTheBestHoweverTheStreamIsDivided) {
  constexpr int kEntries = 5000;
  constexpr int kBest = 37;
  std::mt19937 random(1);
  std::vector<float> scores(kEntries);
  for (float& s : scores) {
    s = static_cast<float>(static_cast<int>(random() % 200) - 100) / 8.0F;  // many ties
  }
  scores[17] = -0.0F;
  std::vector<int32_t> order(kEntries);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(kBest);
  std::sort(order.begin(), order.end());
  for (const int parts : {1, 2, 7}) {
    TopEntries best(kBest);
    for (int p = parts - 1; p >= 0; --p) {
      TopEntries part(kBest);
      const int first = kEntries * p / parts;
      part.add(first, scores.data() + first, kEntries * (p + 1) / parts - first);
      best.add(part);
    }
    std::vector<int32_t> got(kBest);
    best.take(got.data());
    EXPECT_EQ(got, order) << parts << " parts";
  }
}

TEST(TopEntries, PadsWhenThereAreFewer) {
  TopEntries best(4);
  const float scores[] = {-2.0F, -1.0F};
  best.add(10, scores, 2);
  std::vector<int32_t> got(4);
  best.take(got.data());
  EXPECT_EQ(got, (std::vector<int32_t>{10, 11, -1, -1}));
}

}  // namespace
}  // namespace fathom::cpu
