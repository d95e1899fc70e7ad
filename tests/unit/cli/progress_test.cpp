#include "cli/progress.h"

#include <gtest/gtest.h>

namespace fathom::cli {
namespace {

TEST(Progress, BarGrowsWithTheShare) {
  EXPECT_EQ(Progress::line("work", 0.0), "work [>                             ]   0 %");
  EXPECT_EQ(Progress::line("work", 0.5), "work [===============>              ]  50 %");
  EXPECT_EQ(Progress::line("work", 1.0), "work [==============================] 100 %");
  EXPECT_EQ(Progress::line("work", 1.5), Progress::line("work", 1.0));
}

TEST(Progress, IsSilentWhenPiped) {
  testing::internal::CaptureStderr();
  {
    Progress progress("work", 2);
    progress.advance(1);
    progress.advance(1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace fathom::cli
