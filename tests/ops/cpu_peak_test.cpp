// The loops that measure the machine do what they are counted for.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "backend/cpu/kernels.h"
#include "backend/cpu/peak.h"
#include "core/buffer.h"
#include "core/error.h"

namespace fathom::cpu {
namespace {

struct Case {
  const char* isa;
  const PeakKernels& (*kernels)() noexcept;
  int32_t sum_per_round;  // what the loop adds up: codes 3 and -5, or ones on AMX
};

class CpuPeak : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(select_kernels(GetParam().isa));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_P(CpuPeak, ReadsEveryByte) {
  HostBuffer buffer(8 * 512);
  const PeakKernels& kernels = GetParam().kernels();
  for (size_t i = 0; i < buffer.size(); i += 8) {
    std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{0});
    buffer.as<uint64_t>()[i / 8] = 0x0123456789ABCDEFULL;
    // Lanes are folded over the registers of a round, not within a register: the first one is what comes back.
    const size_t lane = i % (std::string_view(GetParam().isa) == "avx2" ? 32 : 64);
    EXPECT_EQ(kernels.read(buffer.bytes().data(), buffer.size()), lane == 0 ? 0x0123456789ABCDEFULL : 0U) << i;
  }
}

TEST_P(CpuPeak, MultipliesAsOftenAsItSays) {
  const PeakKernels& kernels = GetParam().kernels();
  EXPECT_EQ(kernels.multiply(0), 0);
  EXPECT_EQ(kernels.multiply(1), GetParam().sum_per_round);
  EXPECT_EQ(kernels.multiply(1000), 1000 * GetParam().sum_per_round);
}

// A lane holds 4 products per instruction: AVX2 adds up 6 registers, AVX-512 16, AMX shows one tile of depth 64.
INSTANTIATE_TEST_SUITE_P(Isas, CpuPeak,
                         testing::Values(Case{"avx2", peak_kernels_avx2, 6 * 4 * -15},
                                         Case{"avx512", peak_kernels_avx512, 16 * 4 * -15},
                                         Case{"amx", peak_kernels_amx, 64}),
                         [](const auto& param) { return std::string(param.param.isa); });

}  // namespace
}  // namespace fathom::cpu
