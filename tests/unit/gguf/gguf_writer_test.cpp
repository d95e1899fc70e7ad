#include "gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/gguf_bytes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::count_files;
using test::GgufBytes;
using test::read_file_bytes;
using test::TempDir;

std::vector<GgufKv> every_type() {
  return {GgufKv::u32("u32", 4000000000U),
          GgufKv::u16("u16", 65535),
          GgufKv::i32("i32", -7),
          GgufKv::f32("f32", 1e-6F),
          GgufKv::boolean("bool", true),
          GgufKv::string("string", "deepseek4"),
          GgufKv::u32s("u32s", std::array<uint32_t, 3>{0, 4, 128}),
          GgufKv::i32s("i32s", std::array<int32_t, 2>{-1, 3}),
          GgufKv::f32s("f32s", std::array<float, 2>{10.0F, 0.5F}),
          GgufKv::strings("strings", std::array<std::string_view, 3>{"a", "", "ccc"})};
}

TEST(GgufWriter, ReaderGetsEveryValueBack) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  GgufWriter(path, every_type(), {}).finish();
  const GgufFile file = GgufFile::open(path);
  ASSERT_EQ(file.metadata().size(), 10U);
  EXPECT_EQ(file.at("u32").to_int(), 4000000000);
  EXPECT_EQ(file.at("u32").type(), GgufType::kU32);
  EXPECT_EQ(file.at("u16").to_int(), 65535);
  EXPECT_EQ(file.at("u16").type(), GgufType::kU16);
  EXPECT_EQ(file.at("i32").to_int(), -7);
  EXPECT_EQ(static_cast<float>(file.at("f32").to_float()), 1e-6F);
  EXPECT_TRUE(file.at("bool").to_bool());
  EXPECT_EQ(file.at("string").to_string(), "deepseek4");
  EXPECT_EQ(file.at("u32s").to_ints(), (std::vector<int64_t>{0, 4, 128}));
  EXPECT_EQ(file.at("i32s").to_ints(), (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(file.at("f32s").to_floats(), (std::vector<double>{10.0, 0.5}));
  EXPECT_EQ(file.at("strings").to_strings(), (std::vector<std::string_view>{"a", "", "ccc"}));
}

TEST(GgufWriter, WritesTheBytesOfTheFormat) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  const std::string a(24, 'a');
  const std::string b(68, 'b');
  GgufWriter writer(path, std::vector{GgufKv::u32("k", 7)},
                    {{"a.weight", DType::kF32, {3, 2}}, {"b.weight", DType::kQ8_0, {64}}});
  ASSERT_NE(writer.current(), nullptr);
  EXPECT_EQ(writer.current()->name, "a.weight");
  EXPECT_EQ(writer.remaining(), 24U);
  writer.write(as_byte_span(a.substr(0, 10)));
  EXPECT_EQ(writer.remaining(), 14U);
  writer.write(as_byte_span(a.substr(10)));
  EXPECT_EQ(writer.current()->name, "b.weight");
  writer.write(as_byte_span(b));
  EXPECT_EQ(writer.current(), nullptr);
  EXPECT_EQ(writer.remaining(), 0U);
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();

  const std::string expected = GgufBytes()
                                   .u32("k", 7)
                                   .tensor("a.weight", {3, 2}, 0, 0)
                                   .tensor("b.weight", {64}, 8, 32)
                                   .data(a + std::string(8, '\0') + b + std::string(28, '\0'))
                                   .build();
  EXPECT_EQ(read_file_bytes(path), expected);
}

TEST(GgufWriter, CopiesMetadataOfAnyType) {
  GgufBytes bytes;
  for (const auto& [type, encoded] : std::vector<std::pair<uint32_t, std::string>>{
           {0, "a"}, {1, "b"}, {2, "ab"}, {3, "cd"}, {10, "abcdefgh"}, {11, "12345678"}, {12, "ABCDEFGH"}}) {
    bytes.key("k" + std::to_string(type), type, encoded);
  }
  bytes.array("numbers", 0, 3, "xyz").array("texts", 8, 2, GgufBytes::str("a") + GgufBytes::str("bb"));
  const std::string plain = bytes.build();
  const std::string with_file_keys =
      bytes.u32("general.alignment", 64).u16("split.no", 0).u16("split.count", 1).build();

  const TempDir dir;
  const GgufFile file = GgufFile::parse(as_byte_span(with_file_keys), "m.gguf");
  GgufWriter(dir.file("copy.gguf"), copy_metadata(file), {}).finish();
  const std::string copy = read_file_bytes(dir.file("copy.gguf"));
  EXPECT_EQ(copy.substr(0, plain.size()), plain);
  EXPECT_EQ(copy.size(), (plain.size() + 31) / 32 * 32);
}

TEST(GgufWriter, LeavesNothingBehindWithoutFinish) {
  const TempDir dir;
  {
    GgufWriter writer(dir.file("m.gguf"), every_type(), {{"a", DType::kF32, {8}}});
    writer.write(as_byte_span(std::string(16, 'x')));
  }
  EXPECT_EQ(count_files(dir.path()), 0U);
}

TEST(GgufWriter, ReplacesAnOldFileOnlyWhenFinished) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", "old");
  {
    GgufWriter writer(path, every_type(), {});
    EXPECT_EQ(read_file_bytes(path), "old");
    writer.finish();
  }
  EXPECT_EQ(read_file_bytes(path).substr(0, 4), "GGUF");
  EXPECT_EQ(count_files(dir.path()), 1U);
}

TEST(GgufWriter, ReportsAFolderThatCannotBeWritten) {
  const TempDir dir;
  EXPECT_ERROR(GgufWriter(dir.file("absent/m.gguf"), {}, {}), ErrorCode::kIo, "cannot create ");
  EXPECT_ERROR(GgufWriter(dir.file("absent/m.gguf"), {}, {}), ErrorCode::kIo, "absent/m.gguf: No such file");
}

TEST(GgufWriterDeathTest, ChecksItsCaller) {
  const TempDir dir;
  const auto path = dir.file("m.gguf");
  EXPECT_DEATH(GgufWriter(path, std::vector{GgufKv::u32("k", 1), GgufKv::u32("k", 2)}, {}), "keys are distinct");
  EXPECT_DEATH(GgufWriter(path, std::vector{GgufKv::u32("general.alignment", 64)}, {}), "alignment is the writer's");
  EXPECT_DEATH(GgufWriter(path, {}, {{"a", DType::kF32, {8}}, {"a", DType::kF32, {8}}}), "names are distinct");
  EXPECT_DEATH(GgufWriter(path, {}, {{"a", DType::kF8_E4M3, {8}}}), "a type that GGUF has");
  EXPECT_DEATH(GgufWriter(path, {}, {{"a", DType::kQ8_0, {8}}}), "rows are whole blocks");
  EXPECT_DEATH(GgufWriter(path, {}, {{"a", DType::kF32, {8}}}).finish(), "every tensor was written");
  EXPECT_DEATH(GgufWriter(path, {}, {{"a", DType::kF32, {1}}}).write(as_byte_span("12345")), "within its tensor");
}

}  // namespace
}  // namespace fathom
