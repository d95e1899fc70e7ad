#include "core/ordered_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "support/expect_error.h"

namespace fathom {
namespace {

// What Python's json.dumps(json.loads(text), ensure_ascii=False) gives.
std::string rewrite(std::string_view text) { return python_json(parse_ordered_json(text, "text")); }

TEST(OrderedJson, SpacesAsPythonDoes) {
  EXPECT_EQ(rewrite(" { \"b\" :1,\"a\":[ 1 ,true,null , {} ,[]] } "), R"({"b": 1, "a": [1, true, null, {}, []]})");
  EXPECT_EQ(rewrite("false"), "false");
}

TEST(OrderedJson, WritesNumbersAsPythonDoes) {
  const std::pair<const char*, const char*> numbers[] = {
      {"0", "0"},
      {"-0", "0"},
      {"-0.0", "-0.0"},
      {"1.0", "1.0"},
      {"1E5", "100000.0"},
      {"0.5", "0.5"},
      {"2.50", "2.5"},
      {"0.1", "0.1"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"1e-7", "1e-07"},
      {"123456789.125", "123456789.125"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"12345678901234567.0", "1.2345678901234568e+16"},
      {"1.5e300", "1.5e+300"},
      {"5e-324", "5e-324"},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"-123456789012345678901234567890", "-123456789012345678901234567890"},
  };
  for (const auto& [text, expected] : numbers) {
    EXPECT_EQ(rewrite(text), expected);
  }
}

TEST(OrderedJson, EscapesOnlyWhatPythonEscapes) {
  EXPECT_EQ(rewrite(R"("\"\\\/\b\f\n\r\t\u0001\u001f\u007f\u00e9\ud83d\ude00")"),
            "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\u00e9\U0001F600\"");
}

TEST(OrderedJson, HalfASurrogatePairBecomesTheReplacementCharacter) {
  EXPECT_EQ(rewrite(R"("\ud83d")"), "\"\uFFFD\"");
  EXPECT_EQ(rewrite(R"("\udc00x\uD83D\uD83D\uDE00")"), "\"\uFFFDx\uFFFD\U0001F600\"");
  EXPECT_EQ(rewrite(R"("\\ud83d")"), R"("\\ud83d")");
}

TEST(OrderedJson, OfEqualKeysTheFirstGivesThePlaceAndTheLastTheValue) {
  EXPECT_EQ(rewrite(R"({"a": {"x": 1}, "b": 2, "a": [3]})"), R"({"a": [3], "b": 2})");
}

TEST(OrderedJson, ReadsManyKeysInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) {
    text += "\"key" + std::to_string(i) + "\":1,";
  }
  text.back() = '}';
  EXPECT_EQ(parse_ordered_json(text, "text").size(), 200000U);
}

TEST(OrderedJson, RejectsWhatIsNotJson) {
  EXPECT_ERROR(rewrite("{\"a\": }"), ErrorCode::kBadRequest, "text: not valid JSON: parse error at line 1, column 7");
  EXPECT_ERROR(rewrite(""), ErrorCode::kBadRequest, "text: not valid JSON");
  EXPECT_ERROR(rewrite("\"\xff\""), ErrorCode::kBadRequest, "text: not valid JSON");
  EXPECT_ERROR(rewrite("1e999"), ErrorCode::kBadRequest, "number overflow");
  EXPECT_ERROR(rewrite({"{}\0{}", 5}), ErrorCode::kBadRequest, "text: not valid JSON: a NUL character");
  EXPECT_EQ(parse_ordered_json("NaN"), std::nullopt);
}

TEST(OrderedJson, RejectsDeepNesting) {
  const std::string open(128, '[');
  const std::string close(128, ']');
  EXPECT_EQ(rewrite(open + close), open + close);
  EXPECT_ERROR(rewrite("[" + open + close + "]"), ErrorCode::kBadRequest, "text: JSON nested deeper than 128");
}

}  // namespace
}  // namespace fathom
