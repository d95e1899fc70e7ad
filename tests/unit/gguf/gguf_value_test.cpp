#include "gguf/gguf_value.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "gguf/gguf_file.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/gguf_bytes.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::GgufBytes;

// A file with one key "k".
class OneValue {
 public:
  OneValue(uint32_t type, const std::string& encoded)
      : text_(GgufBytes().key("k", type, encoded).build()), file_(GgufFile::parse(as_byte_span(text_), "m.gguf")) {}
  static OneValue array(uint32_t element_type, uint64_t count, const std::string& encoded) {
    return {9, GgufBytes::pod(element_type) + GgufBytes::pod(count) + encoded};
  }
  const GgufValue* operator->() const { return &file_.at("k"); }

 private:
  std::string text_;
  GgufFile file_;
};

template <class T>
std::string pod(T value) {
  return GgufBytes::pod(value);
}

TEST(GgufValue, ReadsIntegersOfEveryWidth) {
  EXPECT_EQ(OneValue(0, pod<uint8_t>(200))->to_int(), 200);
  EXPECT_EQ(OneValue(1, pod<int8_t>(-7))->to_int(), -7);
  EXPECT_EQ(OneValue(2, pod<uint16_t>(65535))->to_int(), 65535);
  EXPECT_EQ(OneValue(3, pod<int16_t>(-300))->to_int(), -300);
  EXPECT_EQ(OneValue(4, pod<uint32_t>(4000000000U))->to_int(), 4000000000);
  EXPECT_EQ(OneValue(5, pod<int32_t>(-5))->to_int(), -5);
  EXPECT_EQ(OneValue(10, pod<uint64_t>(uint64_t{1} << 62))->to_int(), int64_t{1} << 62);
  EXPECT_EQ(OneValue(11, pod<int64_t>(-1))->to_int(), -1);
}

TEST(GgufValue, ReadsFloatsAndNumbersAsFloats) {
  EXPECT_EQ(OneValue(6, pod<float>(1.5F))->to_float(), 1.5);
  EXPECT_EQ(OneValue(12, pod<double>(1e-300))->to_float(), 1e-300);
  EXPECT_EQ(OneValue(4, pod<uint32_t>(16))->to_float(), 16.0);
  EXPECT_EQ(OneValue(10, pod<uint64_t>(UINT64_MAX))->to_float(), 18446744073709551616.0);
}

TEST(GgufValue, ReadsBoolsAndStrings) {
  EXPECT_TRUE(OneValue(7, pod<uint8_t>(1))->to_bool());
  EXPECT_FALSE(OneValue(7, pod<uint8_t>(0))->to_bool());
  EXPECT_EQ(OneValue(8, GgufBytes::str("yarn"))->to_string(), "yarn");
  EXPECT_EQ(OneValue(8, GgufBytes::str(""))->to_string(), "");
}

TEST(GgufValue, ReadsArrays) {
  const OneValue ints = OneValue::array(3, 3, pod<int16_t>(0) + pod<int16_t>(4) + pod<int16_t>(128));
  EXPECT_TRUE(ints->is_array());
  EXPECT_EQ(ints->count(), 3U);
  EXPECT_EQ(ints->type_text(), "array of 3 i16");
  EXPECT_EQ(ints->to_ints(), (std::vector<int64_t>{0, 4, 128}));
  EXPECT_EQ(OneValue::array(12, 2, pod(0.5) + pod(2.0))->to_floats(), (std::vector<double>{0.5, 2.0}));
  const OneValue strings = OneValue::array(8, 3, GgufBytes::str("a") + GgufBytes::str("") + GgufBytes::str("ccc"));
  EXPECT_EQ(strings->to_strings(), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_TRUE(OneValue::array(8, 0, "")->to_strings().empty());
}

TEST(GgufValue, SpreadsOneValueOverTheLayers) {
  EXPECT_EQ(OneValue(4, pod<uint32_t>(2))->to_ints_per_layer(3), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(OneValue(6, pod(1.5F))->to_floats_per_layer(2), (std::vector<double>{1.5, 1.5}));
  const OneValue ints = OneValue::array(4, 3, pod<uint32_t>(7) + pod<uint32_t>(8) + pod<uint32_t>(9));
  EXPECT_EQ(ints->to_ints_per_layer(2), (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(ints->to_floats_per_layer(3), (std::vector<double>{7, 8, 9}));
  EXPECT_ERROR((void)ints->to_ints_per_layer(4), ErrorCode::kBadModel,
               "m.gguf: k has 3 values, expected one, or one for each of the 4 layers");
}

TEST(GgufValue, NamesKeyAndBothTypes) {
  const OneValue text(8, GgufBytes::str("x"));
  EXPECT_ERROR((void)text->to_int(), ErrorCode::kBadModel, "m.gguf: k is string, expected an integer");
  EXPECT_ERROR((void)text->to_float(), ErrorCode::kBadModel, "k is string, expected a number");
  EXPECT_ERROR((void)text->to_bool(), ErrorCode::kBadModel, "k is string, expected a bool");
  EXPECT_ERROR((void)text->to_ints(), ErrorCode::kBadModel, "k is string, expected an array of integers");
  EXPECT_ERROR((void)text->to_floats(), ErrorCode::kBadModel, "k is string, expected an array of numbers");
  EXPECT_ERROR((void)text->to_ints_per_layer(1), ErrorCode::kBadModel, "k is string, expected an integer");
  const OneValue number(6, pod(1.5F));
  EXPECT_ERROR((void)number->to_int(), ErrorCode::kBadModel, "k is f32, expected an integer");
  EXPECT_ERROR((void)number->to_string(), ErrorCode::kBadModel, "k is f32, expected a string");
  EXPECT_ERROR((void)number->to_strings(), ErrorCode::kBadModel, "k is f32, expected an array of strings");
  const OneValue floats = OneValue::array(6, 1, pod(1.5F));
  EXPECT_ERROR((void)floats->to_int(), ErrorCode::kBadModel, "k is array of 1 f32, expected an integer");
  EXPECT_ERROR((void)floats->to_float(), ErrorCode::kBadModel, "k is array of 1 f32, expected a number");
  EXPECT_ERROR((void)floats->to_ints(), ErrorCode::kBadModel, "k is array of 1 f32, expected an array of integers");
  EXPECT_ERROR((void)floats->to_strings(), ErrorCode::kBadModel, "k is array of 1 f32, expected an array of strings");
  const OneValue strings = OneValue::array(8, 1, GgufBytes::str("a"));
  EXPECT_ERROR((void)strings->to_floats(), ErrorCode::kBadModel,
               "k is array of 1 string, expected an array of numbers");
}

TEST(GgufValue, RefusesIntegersOutOfRange) {
  EXPECT_ERROR((void)OneValue(4, pod<uint32_t>(70000))->to_int(0, 65535), ErrorCode::kBadModel,
               "m.gguf: k is 70000, expected 0 to 65535");
  EXPECT_ERROR((void)OneValue(10, pod<uint64_t>(UINT64_MAX))->to_int(), ErrorCode::kBadModel,
               "k is 18446744073709551615, expected -9223372036854775808 to 9223372036854775807");
  const OneValue ints = OneValue::array(5, 2, pod<int32_t>(3) + pod<int32_t>(-3));
  EXPECT_ERROR((void)ints->to_ints(0, 9), ErrorCode::kBadModel, "k is -3 at index 1, expected 0 to 9");
}

}  // namespace
}  // namespace fathom
