#include "core/printable.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Printable, EscapesAndShortens) {
  EXPECT_EQ(printable("blk.0.attn_q_a.weight"), "blk.0.attn_q_a.weight");
  EXPECT_EQ(printable(std::string_view("a\0\n\x1b\xff\\", 6)), "a\\x00\\x0a\\x1b\\xff\\\\");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
}

}  // namespace
}  // namespace fathom
