#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "gguf/gguf_file.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/gguf_bytes.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::GgufBytes;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;

// The text must outlive the file.
GgufFile parse(const std::string& text) { return GgufFile::parse(as_byte_span(text), "m.gguf"); }

void expect_bad(const GgufBytes& bytes, std::string_view message) {
  EXPECT_ERROR((void)parse(bytes.build()), ErrorCode::kBadModel, message);
}

TEST(GgufReader, ReadsTensorsInFileOrder) {
  const std::string data(32 + 68, 'x');
  const std::string text = GgufBytes()
                               .u32("general.file_type", 7)
                               .tensor("a.weight", {3, 2}, kF32, 0)
                               .tensor("b.weight", {64}, kQ8_0, 32)
                               .data(data)
                               .build();
  const GgufFile file = parse(text);
  EXPECT_EQ(file.path(), "m.gguf");
  EXPECT_EQ(file.n_parts(), 1U);
  ASSERT_EQ(file.tensors().size(), 2U);

  const GgufTensor& a = file.tensors()[0];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_EQ(a.n_dims, 2);
  EXPECT_EQ(a.dims, (std::array<uint64_t, 4>{3, 2, 1, 1}));
  EXPECT_EQ(a.bytes.size(), 24U);
  EXPECT_EQ(reinterpret_cast<const char*>(a.bytes.data()), text.data() + text.size() - data.size());

  const GgufTensor* b = file.find_tensor("b.weight");
  ASSERT_EQ(b, &file.tensors()[1]);
  EXPECT_EQ(b->dtype, DType::kQ8_0);
  EXPECT_EQ(b->bytes.size(), 68U);
  EXPECT_EQ(b->bytes.data(), a.bytes.data() + 32);
  EXPECT_EQ(file.find_tensor("c.weight"), nullptr);
}

TEST(GgufReader, ReadsVersion2AndFilesWithoutTensors) {
  GgufBytes bytes;
  bytes.version = 2;
  const std::string text = bytes.string("general.name", "tiny").build();
  const GgufFile file = parse(text);
  EXPECT_EQ(file.at("general.name").to_string(), "tiny");
  EXPECT_TRUE(file.tensors().empty());
}

TEST(GgufReader, HonoursAlignment) {
  GgufBytes bytes;
  bytes.alignment = 128;
  const std::string text =
      bytes.u32("general.alignment", 128).tensor("a", {1}, kF32, 128).data(std::string(128, '\0') + "abcd").build();
  const GgufFile file = parse(text);
  EXPECT_EQ(std::memcmp(file.tensors()[0].bytes.data(), "abcd", 4), 0);
}

TEST(GgufReader, RefusesForeignFiles) {
  EXPECT_ERROR((void)parse(""), ErrorCode::kBadModel, "m.gguf: file ends inside the header: 4 bytes wanted at byte 0");
  EXPECT_ERROR((void)parse("{\"a\":1}"), ErrorCode::kBadModel,
               "not a GGUF file: starts with \"{\"a\"\", expected \"GGUF\"");
  EXPECT_ERROR((void)parse(std::string("\x1b[2J", 4)), ErrorCode::kBadModel, "starts with \"\\x1b[2J\"");
  GgufBytes bytes;
  bytes.version = 1;
  EXPECT_ERROR((void)parse(bytes.build()), ErrorCode::kUnsupported, "GGUF version 1, expected 2 or 3");
  bytes.version = 4;
  EXPECT_ERROR((void)parse(bytes.build()), ErrorCode::kUnsupported, "GGUF version 4, expected 2 or 3");
  bytes.version = 0x03000000;
  EXPECT_ERROR((void)parse(bytes.build()), ErrorCode::kUnsupported, "big-endian GGUF, expected little-endian");
}

TEST(GgufReader, RefusesCountsThatTheFileCannotHold) {
  const std::string text = GgufBytes().u32("a", 1).build(UINT64_MAX, 1);
  EXPECT_ERROR((void)parse(text), ErrorCode::kBadModel, "header claims 18446744073709551615 tensors, more than");
  const std::string keys = GgufBytes().u32("a", 1).build(0, uint64_t{1} << 40);
  EXPECT_ERROR((void)parse(keys), ErrorCode::kBadModel, "header claims 1099511627776 metadata keys, more than");
}

TEST(GgufReader, RefusesEveryTruncation) {
  const std::string text = GgufBytes()
                               .string("general.name", "tiny")
                               .array("tokens", 8, 2, GgufBytes::str("a") + GgufBytes::str("b"))
                               .tensor("a.weight", {3, 2}, kF32, 0)
                               .data(std::string(24, 'x'))
                               .build();
  ASSERT_NO_THROW(parse(text));
  for (size_t size = 0; size < text.size(); ++size) {
    // A copy of the exact size, so that a sanitizer sees an over-read.
    const std::string cut(text, 0, size);
    EXPECT_ERROR((void)parse(cut), ErrorCode::kBadModel, "m.gguf: ");
  }
}

TEST(GgufReader, SaysWhereTheFileEnds) {
  const std::string text = GgufBytes().u32("some.key", 1).tensor("a.weight", {3}, kF32, 0).build();
  const size_t header_bytes = 4 + 4 + 8 + 8;
  EXPECT_ERROR((void)parse(text.substr(0, header_bytes + 60)), ErrorCode::kBadModel,
               "file ends inside the description of tensor a.weight");
  const std::string name_too_long = "GGUF" + GgufBytes::pod<uint32_t>(3) + GgufBytes::pod<uint64_t>(0) +
                                    GgufBytes::pod<uint64_t>(1) + GgufBytes::pod<uint64_t>(UINT64_MAX) + "abcdefgh";
  EXPECT_ERROR((void)parse(name_too_long), ErrorCode::kBadModel,
               "file ends inside the name of metadata key 0: 18446744073709551615 bytes wanted at byte 32");
  const std::string no_value = GgufBytes().key("some.key", 8, GgufBytes::pod<uint64_t>(9) + "x").build();
  EXPECT_ERROR((void)parse(no_value), ErrorCode::kBadModel, "file ends inside the value of some.key: 9 bytes wanted");
  const std::string no_tensor_name = GgufBytes().string("pad", std::string(32, 'x')).build(1, 1);
  EXPECT_ERROR((void)parse(no_tensor_name), ErrorCode::kBadModel, "file ends inside the name of tensor 0");
}

TEST(GgufReader, RefusesBadMetadata) {
  expect_bad(GgufBytes().u32("", 1), "metadata key 0 has an empty name");
  expect_bad(GgufBytes().u32("k", 1).u32("k", 2), "metadata key k occurs twice");
  expect_bad(GgufBytes().key("k", 13, "abcd"), "k has value type 13, expected 0 to 12");
  expect_bad(GgufBytes().array("k", 77, 1, "abcd"), "k has value type 77, expected 0 to 12");
  expect_bad(GgufBytes().key("k", 7, std::string(1, 2)), "k is a bool with the value 2, expected 0 or 1");
  expect_bad(GgufBytes().array("k", 7, 2, std::string("\x01\x02", 2)), "k is a bool with the value 2");
  expect_bad(GgufBytes().array("k", 10, UINT64_MAX, "12345678"), "k has 18446744073709551615 u64 values, but only 8");
  EXPECT_ERROR((void)parse(GgufBytes().array("k", 9, 1, "abcdefghijklm").build()), ErrorCode::kUnsupported,
               "k is an array of arrays, expected an array of plain values");
}

TEST(GgufReader, RefusesBadAlignment) {
  expect_bad(GgufBytes().u32("general.alignment", 0), "general.alignment is 0, expected 8 to 1048576");
  expect_bad(GgufBytes().u32("general.alignment", 4), "general.alignment is 4, expected 8 to 1048576");
  expect_bad(GgufBytes().u32("general.alignment", 0x80000000), "general.alignment is 2147483648, expected 8");
  expect_bad(GgufBytes().u32("general.alignment", 48), "general.alignment is 48, expected a power of two");
  expect_bad(GgufBytes().string("general.alignment", "32"), "general.alignment is string, expected an integer");
}

TEST(GgufReader, RefusesBadTensors) {
  const std::string data(64, 'x');
  expect_bad(GgufBytes().tensor("", {1}, kF32, 0).data(data), "tensor 0 has an empty name");
  expect_bad(GgufBytes().tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).data(data), "tensor t occurs twice");
  expect_bad(GgufBytes().tensor("t", {}, kF32, 0).data(data), "tensor t: 0 dimensions, expected 1 to 4");
  expect_bad(GgufBytes().tensor("t", {1, 1, 1, 1, 1}, kF32, 0).data(data), "tensor t: 5 dimensions, expected 1 to 4");
  expect_bad(GgufBytes().tensor("t", {4, 0}, kF32, 0).data(data), "tensor t: dimension 1 is 0");
  expect_bad(GgufBytes().tensor("t", {48}, kQ8_0, 0).data(data),
             "tensor t: rows of 48 elements, expected a multiple of 32 for type Q8_0");
  expect_bad(GgufBytes().tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, kF32, 0).data(data),
             "tensor t: its size overflows");
  expect_bad(GgufBytes().tensor("t", {UINT64_MAX - 31}, kQ8_0, 0).data(data), "tensor t: its size overflows");
  expect_bad(GgufBytes().tensor("t", {1}, kF32, 4).data(data), "tensor t: offset 4, expected a multiple of 32");
  expect_bad(GgufBytes().tensor("t", {9}, kF32, 32).data(data),
             "tensor t: 36 bytes at byte 32 of the data, but the file holds 64 bytes of data: truncated or damaged");
  expect_bad(GgufBytes().tensor("t", {1}, kF32, UINT64_MAX - 31).data(data), "tensor t: 4 bytes at byte 1844674407");
  expect_bad(GgufBytes().tensor("a", {1}, kF32, 32).tensor("b", {9}, kF32, 0).data(data),
             "tensors b and a overlap at byte 32 of the data");
}

TEST(GgufReader, NamesTheTypesItSupports) {
  const std::string unknown = GgufBytes().tensor("blk.0.x", {32}, 200, 0).data(std::string(64, 'x')).build();
  EXPECT_ERROR((void)parse(unknown), ErrorCode::kUnsupported,
               "m.gguf: tensor blk.0.x: type 200 (unknown); supported are F32, F16, BF16, I32, I64, Q4_0,");
  const std::string nvfp4 = GgufBytes().tensor("blk.0.x", {32}, 40, 0).data(std::string(64, 'x')).build();
  EXPECT_ERROR((void)parse(nvfp4), ErrorCode::kUnsupported, "type 40 (NVFP4); supported are");
}

TEST(GgufReader, EscapesHostileNamesInMessages) {
  expect_bad(GgufBytes().tensor("\x1b[31m\n", {4, 0}, kF32, 0), "tensor \\x1b[31m\\x0a: dimension 1 is 0");
  const std::string long_name(1000, 'n');
  expect_bad(GgufBytes().tensor(long_name, {4, 0}, kF32, 0), "tensor " + std::string(96, 'n') + "...: dimension");
}

}  // namespace
}  // namespace fathom
