#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "gguf/gguf_file.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/gguf_bytes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::GgufBytes;
using test::TempDir;

constexpr uint32_t kF32 = 0;

GgufBytes part(uint16_t index, uint16_t count, int32_t n_tensors) {
  return GgufBytes().u16("split.no", index).u16("split.count", count).i32("split.tensors.count", n_tensors);
}

GgufBytes part_with_tensor(uint16_t index, uint16_t count, int32_t n_tensors, const std::string& name) {
  return part(index, count, n_tensors).tensor(name, {1}, kF32, 0).data(name.substr(0, 4));
}

class GgufSplit : public ::testing::Test {
 protected:
  void SetUp() override {
    write(1, part(0, 3, 2).string("general.name", "tiny"));
    write(2, part_with_tensor(1, 3, 2, "aaaa"));
    write(3, part_with_tensor(2, 3, 2, "bbbb"));
  }
  void write(int number, const GgufBytes& bytes) {
    dir_.write("m-0000" + std::to_string(number) + "-of-00003.gguf", bytes.build());
  }
  [[nodiscard]] std::string path(int number) const {
    return dir_.file("m-0000" + std::to_string(number) + "-of-00003.gguf");
  }

  TempDir dir_;
};

TEST_F(GgufSplit, OpensAllParts) {
  const GgufFile file = GgufFile::open(path(1));
  EXPECT_EQ(file.n_parts(), 3U);
  EXPECT_EQ(file.path(), path(1));
  EXPECT_EQ(file.at("general.name").to_string(), "tiny");
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(std::memcmp(file.find_tensor("aaaa")->bytes.data(), "aaaa", 4), 0);
  EXPECT_EQ(std::memcmp(file.find_tensor("bbbb")->bytes.data(), "bbbb", 4), 0);
}

TEST_F(GgufSplit, SurvivesAMove) {
  GgufFile file = GgufFile::open(path(1));
  const GgufFile moved = std::move(file);
  EXPECT_ERROR((void)moved.at("general.name").to_int(), ErrorCode::kBadModel, path(1) + ": general.name is string");
  EXPECT_EQ(std::memcmp(moved.find_tensor("bbbb")->bytes.data(), "bbbb", 4), 0);
}

TEST_F(GgufSplit, NamesTheMissingPart) {
  std::filesystem::remove(path(3));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kIo, "m-00003-of-00003.gguf: cannot open: No such file");
}

TEST_F(GgufSplit, AsksForTheFirstPart) {
  EXPECT_ERROR((void)GgufFile::open(path(2)), ErrorCode::kBadModel, "is part 2 of 3 of a split file; open the first, ");
  EXPECT_ERROR((void)GgufFile::open(path(2)), ErrorCode::kBadModel, "/m-00001-of-00003.gguf");
}

TEST_F(GgufSplit, RefusesAPartUnderAnotherName) {
  std::filesystem::rename(path(1), dir_.file("m.gguf"));
  EXPECT_ERROR((void)GgufFile::open(dir_.file("m.gguf")), ErrorCode::kBadModel,
               "m.gguf: is part 1 of 3 of a split file, so its name must end in -00001-of-00003.gguf");
}

TEST_F(GgufSplit, RefusesAPartThatIsAnother) {
  std::filesystem::copy_file(path(1), path(2), std::filesystem::copy_options::overwrite_existing);
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel,
               "m-00002-of-00003.gguf: says it is part 1 of 3 with 2 tensors in all, expected part 2 of 3 with 2");
  write(2, part_with_tensor(1, 4, 2, "aaaa"));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "says it is part 2 of 4 with 2 tensors in all");
  write(2, part_with_tensor(1, 3, 5, "aaaa"));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "says it is part 2 of 3 with 5 tensors in all");
  write(2, GgufBytes().u32("general.alignment", 32));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "says it is part 1 of 1 with 0 tensors in all");
}

TEST_F(GgufSplit, RefusesATensorInTwoParts) {
  write(3, part_with_tensor(2, 3, 2, "aaaa"));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel,
               "m-00003-of-00003.gguf: tensor aaaa is also in an earlier part");
}

TEST_F(GgufSplit, RefusesMissingTensors) {
  write(1, part(0, 3, 7));
  write(2, part_with_tensor(1, 3, 7, "aaaa"));
  write(3, part_with_tensor(2, 3, 7, "bbbb"));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "the 3 parts hold 2 tensors, expected 7");
}

TEST_F(GgufSplit, RefusesIncompleteSplitKeys) {
  write(1, GgufBytes().u16("split.count", 3));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "has split.count but no split.no");
  write(1, GgufBytes().u16("split.count", 3).u16("split.no", 0));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "has split.count but no split.tensors.count");
  write(1, part(3, 3, 2));
  EXPECT_ERROR((void)GgufFile::open(path(1)), ErrorCode::kBadModel, "split.no is 3, expected 0 to 2");
}

TEST(GgufFile, ASplitOfOneIsAWholeFile) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", part_with_tensor(0, 1, 1, "aaaa").build());
  EXPECT_EQ(GgufFile::open(path).tensors().size(), 1U);
}

TEST(GgufFile, MemoryHoldsWholeFilesOnly) {
  const std::string text = part(0, 3, 2).build();
  EXPECT_ERROR((void)GgufFile::parse(as_byte_span(text), "m.gguf"), ErrorCode::kUnsupported,
               "m.gguf: is part 1 of 3 of a split file, expected a whole file");
}

TEST(GgufFile, ReportsUnreadablePaths) {
  const TempDir dir;
  EXPECT_ERROR((void)GgufFile::open(dir.file("absent.gguf")), ErrorCode::kIo, "absent.gguf: cannot open: No such file");
  EXPECT_ERROR((void)GgufFile::open(dir.path().string()), ErrorCode::kIo, ": not a regular file");
  EXPECT_ERROR((void)GgufFile::open("/dev/null"), ErrorCode::kIo, "/dev/null: not a regular file");
  EXPECT_ERROR((void)GgufFile::open(dir.write("empty.gguf", "")), ErrorCode::kBadModel, "file ends inside the header");
}

TEST(GgufFile, NamesTheMissingKey) {
  const std::string text = GgufBytes().build();
  const GgufFile file = GgufFile::parse(as_byte_span(text), "m.gguf");
  EXPECT_EQ(file.find("general.architecture"), nullptr);
  EXPECT_ERROR((void)file.at("general.architecture"), ErrorCode::kBadModel,
               "m.gguf: metadata key general.architecture is missing");
}

}  // namespace
}  // namespace fathom
