#include "core/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

uintptr_t address(const HostBuffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.bytes().data()); }

TEST(HostBuffer, IsAlignedWhateverItsSize) {
  for (const size_t bytes : {1, 63, 64, 65, 4095, 100000}) {
    const HostBuffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(address(buffer) % kBufferAlignment, 0U) << bytes << " bytes";
  }
}

TEST(HostBuffer, HugePagesStartOnTheirOwnBoundary) {
  constexpr size_t kBytes = (size_t{4} << 20) + 12345;
  HostBuffer buffer(kBytes, HostBuffer::HugePages::kAdvise);
  EXPECT_EQ(buffer.size(), kBytes);
  EXPECT_EQ(address(buffer) % (size_t{2} << 20), 0U);
  buffer.bytes().back() = std::byte{7};
  EXPECT_EQ(buffer.bytes()[kBytes - 1], std::byte{7});
}

TEST(HostBuffer, EmptyOwnsNothing) {
  EXPECT_EQ(HostBuffer().bytes().data(), nullptr);
  EXPECT_EQ(HostBuffer(0).bytes().data(), nullptr);
  EXPECT_TRUE(HostBuffer(0).as<float>().empty());
}

TEST(HostBuffer, ViewLeavesOutAPartialElement) {
  HostBuffer buffer(4 * sizeof(float) + 3);
  EXPECT_EQ(buffer.as<float>().size(), 4U);
  buffer.as<float>()[3] = 2.5F;
  EXPECT_EQ(std::as_const(buffer).as<float>()[3], 2.5F);
}

TEST(HostBuffer, MoveHandsOverTheBytes) {
  HostBuffer from(128);
  const std::byte* data = from.bytes().data();
  HostBuffer to = std::move(from);
  EXPECT_EQ(to.bytes().data(), data);
  EXPECT_EQ(to.size(), 128U);
  EXPECT_EQ(from.size(), 0U);  // NOLINT(bugprone-use-after-move): what a moved-from buffer is

  HostBuffer other(64);
  other = std::move(to);
  EXPECT_EQ(other.bytes().data(), data);
  EXPECT_EQ(to.bytes().data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(HostBuffer, TooLargeNamesTheSize) {
  constexpr size_t kTooMuch = std::numeric_limits<size_t>::max() / 2;
  EXPECT_ERROR(HostBuffer{kTooMuch}, ErrorCode::kOutOfMemory,
               "cannot allocate " + std::to_string(kTooMuch) + " bytes of host memory");
}

}  // namespace
}  // namespace fathom
