#include "core/log.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

struct Output {
  std::string out;
  std::string err;
};

// What one line of every level writes while `level` is set.
Output write_all_levels(LogLevel level) {
  init_logging(level);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log_debug("a debug line");
  log_info("an info line");
  log_warn("a warn line");
  log_error("an error line");
  return {testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Log, NeverWritesToStdout) { EXPECT_EQ(write_all_levels(LogLevel::kDebug).out, ""); }

TEST(Log, WritesLevelsFromTheOneSet) {
  const std::string err = write_all_levels(LogLevel::kWarn).err;
  EXPECT_FALSE(contains(err, "a debug line"));
  EXPECT_FALSE(contains(err, "an info line"));
  EXPECT_TRUE(contains(err, "warning a warn line\n"));
  EXPECT_TRUE(contains(err, "error an error line\n"));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_TRUE(log_enabled(LogLevel::kWarn));
}

TEST(Log, OffWritesNothing) {
  EXPECT_EQ(write_all_levels(LogLevel::kOff).err, "");
  EXPECT_FALSE(log_enabled(LogLevel::kError));
  EXPECT_FALSE(log_enabled(LogLevel::kOff));
}

TEST(Log, TakesTextAsItIs) {
  init_logging(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  log_info("braces {} and %s stay");
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "info braces {} and %s stay\n"));
}

TEST(Log, LevelNames) {
  EXPECT_EQ(log_level_from_name("debug"), LogLevel::kDebug);
  EXPECT_EQ(log_level_from_name("info"), LogLevel::kInfo);
  EXPECT_EQ(log_level_from_name("warn"), LogLevel::kWarn);
  EXPECT_EQ(log_level_from_name("error"), LogLevel::kError);
  EXPECT_EQ(log_level_from_name("off"), LogLevel::kOff);
  EXPECT_EQ(log_level_from_name("verbose"), std::nullopt);
}

}  // namespace
}  // namespace fathom
