#include "core/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

// A process that is killed runs no destructor: what it wrote must have no name.
TEST(AtomicFile, HasNoNameBeforeItIsComplete) {
  const TempDir dir;
  const int probe = ::open(dir.path().c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (probe < 0) {
    GTEST_SKIP() << "the file system of " << dir.path() << " has no files without a name";
  }
  ::close(probe);
  AtomicFile file(dir.file("out"));
  file.write(bytes_of("half"));
  EXPECT_EQ(count_files(dir.path()), 0U);
  file.commit();
  EXPECT_EQ(count_files(dir.path()), 1U);
}

TEST(AtomicFile, FollowsALink) {
  const TempDir dir;
  dir.write("old", "old");
  std::filesystem::create_symlink("old", dir.file("link"));
  AtomicFile file(dir.file("link"));
  file.write(bytes_of("new"));
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir.file("link")));
  EXPECT_EQ(read_file_bytes(dir.file("old")), "new");
}

TEST(AtomicFile, TakesTheLongestName) {
  const TempDir dir;
  const std::string path = dir.file(std::string(255, 'x'));
  AtomicFile file(path);
  file.commit();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(AtomicFile, ReportsWhatFailed) {
  const TempDir dir;
  EXPECT_ERROR(AtomicFile(dir.file("absent/out")), ErrorCode::kIo, "cannot create ");
  EXPECT_ERROR(AtomicFile("/dev/null"), ErrorCode::kIo,
               "cannot create /dev/null: it is a device, pipe or socket, expected a new name or a regular file");
  EXPECT_ERROR(AtomicFile(""), ErrorCode::kIo, "cannot create '': No such file or directory");
  EXPECT_ERROR(AtomicFile(dir.file(std::string(256, 'x'))), ErrorCode::kIo, "File name too long");
  std::filesystem::create_directory(dir.file("taken"));
  EXPECT_ERROR(AtomicFile(dir.file("taken")), ErrorCode::kIo, "it is a directory, expected");
  AtomicFile file(dir.file("late"));
  std::filesystem::create_directory(dir.file("late"));
  EXPECT_ERROR(file.commit(), ErrorCode::kIo, "cannot rename the temporary file to ");
}

}  // namespace
}  // namespace fathom
