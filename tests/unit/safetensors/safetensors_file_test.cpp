#include "safetensors/safetensors_file.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/safetensors_bytes.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::safetensors_bytes;

// The text must outlive the file.
SafetensorsFile parse(const std::string& text) { return SafetensorsFile::parse(as_byte_span(text), "m.safetensors"); }

void expect_bad(std::string_view header, std::string_view message, std::string_view data = "") {
  EXPECT_ERROR((void)parse(safetensors_bytes(header, data)), ErrorCode::kBadModel, message);
}

TEST(SafetensorsFile, ReadsTensors) {
  const std::string text = safetensors_bytes(
      R"({"__metadata__": {"format": "pt"},
          "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]},
          "a": {"data_offsets": [0, 8], "shape": [8], "dtype": "F8_E8M0"},
          "empty": {"dtype": "I64", "shape": [4, 0], "data_offsets": [8, 8]},
          "scalar": {"dtype": "BF16", "shape": [], "data_offsets": [32, 34]}}  )",
      "01234567" + std::string(24, 'b') + "ss");
  const SafetensorsFile file = parse(text);
  EXPECT_EQ(file.path(), "m.safetensors");
  ASSERT_EQ(file.tensors().size(), 4U);

  const SafetensorsTensor& b = file.tensors()[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, SafetensorsDType::kF32);
  EXPECT_EQ(b.shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(b.bytes.size(), 24U);
  EXPECT_EQ(reinterpret_cast<const char*>(b.bytes.data()), text.data() + text.size() - 26);

  const SafetensorsTensor* a = file.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, SafetensorsDType::kF8_E8M0);
  EXPECT_EQ(a->bytes.size(), 8U);
  EXPECT_TRUE(file.find("empty")->bytes.empty());
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(SafetensorsFile, KnowsEveryDtype) {
  for (const auto& [name, n_bytes] : std::vector<std::pair<std::string, int>>{{"BOOL", 1},
                                                                              {"U8", 1},
                                                                              {"I8", 1},
                                                                              {"F8_E4M3", 1},
                                                                              {"F8_E5M2", 1},
                                                                              {"F8_E8M0", 1},
                                                                              {"U16", 2},
                                                                              {"I16", 2},
                                                                              {"F16", 2},
                                                                              {"BF16", 2},
                                                                              {"U32", 4},
                                                                              {"I32", 4},
                                                                              {"F32", 4},
                                                                              {"U64", 8},
                                                                              {"I64", 8},
                                                                              {"F64", 8}}) {
    const auto dtype = safetensors_dtype_from_name(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(safetensors_dtype_info(*dtype).name, name);
    EXPECT_EQ(safetensors_dtype_info(*dtype).n_bytes, n_bytes);
  }
  EXPECT_EQ(safetensors_dtype_from_name("f32"), std::nullopt);
}

TEST(SafetensorsFile, RefusesForeignFiles) {
  EXPECT_ERROR((void)parse("1234567"), ErrorCode::kBadModel,
               "m.safetensors: not a safetensors file: 7 bytes, expected at least 8");
  EXPECT_ERROR((void)parse("GGUF____________"), ErrorCode::kBadModel, "not a safetensors file: a header of ");
  expect_bad("[]", "m.safetensors: header is an array, expected an object");
  expect_bad("12", "header is 12, expected an object");
  expect_bad("", "header is not valid JSON: parse error at line 1, column 1");
  expect_bad("{} x", "header is not valid JSON: parse error at line 1, column 4");
  expect_bad("{\"\xff\": {}}", "header is not valid JSON: ");
}

TEST(SafetensorsFile, RefusesEveryTruncation) {
  const std::string text =
      safetensors_bytes(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "01234567");
  ASSERT_NO_THROW((void)parse(text));
  for (size_t size = 0; size < text.size(); ++size) {
    // A copy of the exact size, so that a sanitizer sees an over-read.
    const std::string cut(text, 0, size);
    EXPECT_ERROR((void)parse(cut), ErrorCode::kBadModel, "m.safetensors: ");
  }
  EXPECT_ERROR((void)parse(text.substr(0, 40)), ErrorCode::kBadModel,
               "a header of 61 bytes, but 32 bytes follow: truncated or damaged");
}

TEST(SafetensorsFile, RefusesBadDescriptions) {
  expect_bad(R"({"a": 5})", "tensor a: is 5, expected an object");
  expect_bad(R"({"a": {"dtype": 5}})", "tensor a: dtype is 5, expected a string");
  expect_bad(R"({"a": {"shape": "x"}})", "tensor a: shape has a string, expected an array of counts");
  expect_bad(R"({"a": {"shape": [-1]}})", "tensor a: shape has -1, expected an array of counts");
  expect_bad(R"({"a": {"shape": [1.5]}})", "tensor a: shape has 1.5, expected an array of counts");
  expect_bad(R"({"a": {"shape": [true]}})", "tensor a: shape has a bool, expected an array of counts");
  expect_bad(R"({"a": {"shape": [null]}})", "tensor a: shape has null, expected an array of counts");
  expect_bad(R"({"a": {"shape": [[1]]}})", "tensor a: shape has an array, expected an array of counts");
  expect_bad(R"({"a": {"shape": [{}]}})", "tensor a: shape has an object, expected an array of counts");
  expect_bad(R"({"a": {"shape": [1,1,1,1,1,1,1,1,1]}})", "tensor a: more than 8 dimensions");
  expect_bad(R"({"a": {"data_offsets": 0}})", "tensor a: data_offsets has 0, expected two counts of bytes");
  expect_bad(R"({"a": {"data_offsets": [0]}})", "tensor a: 1 data_offsets, expected 2");
  expect_bad(R"({"a": {"data_offsets": [0, 1, 2]}})", "tensor a: data_offsets has 2, expected two counts of bytes");
  expect_bad(R"({"a": {"data_offsets": [0, -1]}})", "tensor a: data_offsets has -1, expected two counts of bytes");
  expect_bad(R"({"a": {"stride": [1]}})", "tensor a: field stride, expected dtype, shape and data_offsets");
  expect_bad(R"({"a": {"dtype": "F32", "dtype": "F32"}})", "tensor a: dtype occurs twice");
  expect_bad(R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", "tensor a: no dtype", "1234");
  expect_bad(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", "tensor a: no shape", "1234");
  expect_bad(R"({"a": {"dtype": "F32", "shape": [1]}})", "tensor a: no data_offsets", "1234");
  expect_bad(R"({"__metadata__": 5})", "__metadata__ holds 5, expected texts");
  expect_bad(R"({"__metadata__": {"a": 5}})", "__metadata__ holds 5, expected texts");
  expect_bad(R"({"__metadata__": {"a": {}}})", "__metadata__ holds an object, expected texts");
  expect_bad(R"({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
                 "a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})",
             "tensor a occurs twice");
}

TEST(SafetensorsFile, NamesTheDtypesItSupports) {
  EXPECT_ERROR((void)parse(safetensors_bytes(R"({"layers.0.x": {"dtype": "C64"}})", "")), ErrorCode::kUnsupported,
               "m.safetensors: tensor layers.0.x: dtype C64; supported are BOOL, U8, I8, F8_E4M3, F8_E5M2, F8_E8M0,");
}

TEST(SafetensorsFile, RefusesBadByteRanges) {
  const std::string_view data = "0123456789abcdef";
  expect_bad(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [12, 20]}})",
             "tensor a: bytes 12 to 20, but the file holds 16 bytes of data: truncated or damaged", data);
  expect_bad(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", "tensor a: bytes 8 to 0, but", data);
  expect_bad(R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})",
             "tensor a: 8 bytes, expected 12 for shape [3] of F32", data);
  expect_bad(R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 8]}})",
             "tensor a: 8 bytes, expected 4 for shape [] of F32", data);
  expect_bad(R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}})",
             "tensor a: the size of shape [4294967296, 4294967296] overflows", data);
  expect_bad(R"({"a": {"dtype": "F32", "shape": [18446744073709551615, 0], "data_offsets": [0, 8]}})",
             "tensor a: 8 bytes, expected 0 for shape [18446744073709551615, 0] of F32", data);
  expect_bad(R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [6, 14]},
                 "b": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}})",
             "tensors b and a overlap at byte 6 of the data", data);
}

TEST(SafetensorsFile, EscapesHostileNamesInMessages) {
  expect_bad(R"({"\u001b[2J": 5})", "tensor \\x1b[2J: is 5, expected an object");
}

TEST(SafetensorsFile, RefusesDeepNestingAtOnce) {
  expect_bad(R"({"a": {"shape": )" + std::string(100000, '['), "tensor a: shape has an array");
}

}  // namespace
}  // namespace fathom
