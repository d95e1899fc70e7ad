#include "core/atomic_file.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

using test::count_files;
using test::read_file_bytes;
using test::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

TEST(AtomicFile, AppearsWhenCommitted) {
  const TempDir dir;
  const std::string path = dir.file("out");
  {
    AtomicFile file(path);
    file.write(bytes_of("one "));
    file.write(bytes_of("two"));
    EXPECT_EQ(file.size(), 7U);
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  EXPECT_EQ(read_file_bytes(path), "one two");
  EXPECT_EQ(count_files(dir.path()), 1U);
}

TEST(AtomicFile, LeavesTheOldFileWhenDropped) {
  const TempDir dir;
  const std::string path = dir.write("out", "old");
  {
    AtomicFile file(path);
    file.write(bytes_of("new"));
  }
  EXPECT_EQ(read_file_bytes(path), "old");
  EXPECT_EQ(count_files(dir.path()), 1U);
}

TEST(AtomicFile, TwoWritersDoNotMeet) {
  const TempDir dir;
  AtomicFile first(dir.file("out"));
  AtomicFile second(dir.file("out"));
  first.write(bytes_of("first"));
  second.write(bytes_of("second"));
  second.commit();
  first.commit();
  EXPECT_EQ(read_file_bytes(dir.file("out")), "first");
  EXPECT_EQ(count_files(dir.path()), 1U);
}

TEST(AtomicFile, ReportsWhatFailed) {
  const TempDir dir;
  EXPECT_ERROR(AtomicFile(dir.file("absent/out")), ErrorCode::kIo, "cannot create ");
  std::filesystem::create_directory(dir.file("taken"));
  AtomicFile file(dir.file("taken"));
  EXPECT_ERROR(file.commit(), ErrorCode::kIo, "cannot rename the temporary file to ");
}

}  // namespace
}  // namespace fathom
