#include "cli/numbers.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace fathom::cli {
namespace {

TEST(ParseSize, UnderstandsUnits) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("512"), 512U);
  EXPECT_EQ(parse_size("512B"), 512U);
  EXPECT_EQ(parse_size("4k"), 4096U);
  EXPECT_EQ(parse_size("1.5K"), 1536U);
  EXPECT_EQ(parse_size("64M"), uint64_t{64} << 20);
  EXPECT_EQ(parse_size("80GB"), uint64_t{80} << 30);
  EXPECT_EQ(parse_size("80 GiB"), uint64_t{80} << 30);
  EXPECT_EQ(parse_size("2T"), uint64_t{2} << 40);
}

TEST(ParseSize, RejectsWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "1.5", "1e3", "12X", "12KX", "1 2", "nan", "inf", "99999999T", "0x10"}) {
    EXPECT_ERROR(static_cast<void>(parse_size(text)), ErrorCode::kBadRequest, "is not a size");
  }
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(uint64_t{81} << 30), "81.0 GiB");
  EXPECT_EQ(format_bytes(uint64_t{5000} << 40), "5000.0 TiB");
}

TEST(FormatCount, IsDecimal) {
  EXPECT_EQ(format_count(999999), "999999");
  EXPECT_EQ(format_count(14431783), "14.4 M");
  EXPECT_EQ(format_count(284300000000), "284.3 B");
}

}  // namespace
}  // namespace fathom::cli
