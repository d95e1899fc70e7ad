#include "core/file_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

std::string_view text(const FileMap& map) {
  return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
}

TEST(FileMap, ShowsTheBytesOfTheFile) {
  constexpr std::string_view kContent("seven\0bytes", 11);
  const test::TempDir dir;
  const std::string path = dir.write("a.bin", kContent);
  const FileMap map(path);
  EXPECT_EQ(text(map), kContent);
  EXPECT_EQ(map.path(), path);
}

TEST(FileMap, EmptyFileHasNoBytes) {
  const test::TempDir dir;
  const FileMap map(dir.write("empty", ""));
  EXPECT_TRUE(map.bytes().empty());
  map.advise(FileMap::Advice::kWillNeed);
}

TEST(FileMap, MissingFileIsNamedWithTheReason) {
  const test::TempDir dir;
  const std::string path = dir.file("missing.gguf");
  EXPECT_ERROR(FileMap{path}, ErrorCode::kIo, path + ": cannot open: No such file or directory");
}

TEST(FileMap, DirectoryIsRefused) {
  const test::TempDir dir;
  EXPECT_ERROR(FileMap{dir.path().string()}, ErrorCode::kIo, dir.path().string() + ": not a regular file");
}

TEST(FileMap, PipeIsRefusedWithoutWaitingForAWriter) {
  const test::TempDir dir;
  const std::string path = dir.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_ERROR(FileMap{path}, ErrorCode::kIo, path + ": not a regular file");
}

TEST(FileMap, MoveKeepsViewsValid) {
  const test::TempDir dir;
  FileMap first(dir.write("a", "first"));
  FileMap second(dir.write("b", "second"));
  const std::byte* data = first.bytes().data();
  FileMap moved = std::move(first);
  EXPECT_EQ(moved.bytes().data(), data);
  EXPECT_TRUE(first.bytes().empty());  // NOLINT(bugprone-use-after-move): what a moved-from map is
  moved = std::move(second);
  EXPECT_EQ(text(moved), "second");
}

// Kilobytes of the mapping that are in this process's memory.
int resident_kilobytes(const FileMap& map) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(map.bytes().data()));
  bool found = false;
  while (std::getline(smaps, line)) {
    found = found || line.starts_with(begin);
    int kilobytes = 0;
    if (found && std::sscanf(line.c_str(), "Rss: %d", &kilobytes) == 1) {
      return kilobytes;
    }
  }
  return -1;
}

TEST(FileMap, ReleasedBytesLeaveMemoryAndComeBack) {
  const test::TempDir dir;
  const std::string content(size_t{1} << 20, 'x');
  const FileMap map(dir.write("a", content));
  ASSERT_EQ(text(map), content);
  ASSERT_GE(resident_kilobytes(map), 1024);
  map.release(map.bytes());
  EXPECT_EQ(resident_kilobytes(map), 0);
  EXPECT_EQ(text(map), content);
  const FileMap other(dir.write("b", content));
  ASSERT_EQ(text(other), content);
  map.release(other.bytes());  // not its own
  EXPECT_GE(resident_kilobytes(other), 1024);
}

TEST(FileMap, MappingOutlivesTheName) {
  const test::TempDir dir;
  const std::string path = dir.write("a", "still here");
  const FileMap map(path);
  std::filesystem::remove(path);
  EXPECT_EQ(text(map), "still here");
}

TEST(FileMap, AdviceChangesNoByte) {
  const test::TempDir dir;
  const std::string content(100000, 'x');
  const FileMap map(dir.write("a", content));
  using Advice = FileMap::Advice;
  for (const Advice advice :
       {Advice::kNormal, Advice::kSequential, Advice::kRandom, Advice::kWillNeed, Advice::kDontNeed}) {
    map.advise(advice);
    map.advise(advice, map.bytes().subspan(5000, 30000));
    EXPECT_EQ(text(map), content);
  }
}

TEST(FileMapDeathTest, AdviceOutsideTheMapIsABug) {
  const test::TempDir dir;
  const FileMap map(dir.write("a", "abc"));
  const std::string elsewhere = "abc";
  EXPECT_DEATH(map.advise(FileMap::Advice::kRandom, std::as_bytes(std::span(elsewhere))), "outside the map");
}

}  // namespace
}  // namespace fathom
