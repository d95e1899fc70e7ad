#include "core/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/expect_error.h"

namespace fathom {
namespace {

TEST(JsonText, ReadsEveryKindOfValue) {
  EXPECT_EQ(parse_json(R"( {"b": 1, "a": {"c": [1.5, true, null, "d"]}} )", "x.json").dump(),
            R"({"a":{"c":[1.5,true,null,"d"]},"b":1})");
}

TEST(JsonText, ReadsManyKeysInOneObject) {
  std::string text = "{\"k0\": 0";
  for (int i = 1; i < 100000; ++i) {
    text += ", \"k" + std::to_string(i) + "\": 0";
  }
  EXPECT_EQ(parse_json(text + "}", "x.json").size(), 100000U);  // minutes if a key cost a look at all others
}

TEST(JsonText, SaysWhereTheTextIsInvalid) {
  EXPECT_ERROR((void)parse_json("", "x.json"), ErrorCode::kBadModel, "x.json: not valid JSON: parse error at line 1");
  EXPECT_ERROR((void)parse_json("{\"a\": }", "x.json"), ErrorCode::kBadModel, "line 1, column 7: syntax error");
  EXPECT_ERROR((void)parse_json("{} {}", "x.json"), ErrorCode::kBadModel, "expected end of input");
  EXPECT_ERROR((void)parse_json({"{}\0{}", 5}, "x.json"), ErrorCode::kBadModel,
               "x.json: not valid JSON: a NUL character");
  EXPECT_ERROR((void)parse_json("\"\xff\"", "x.json"), ErrorCode::kBadModel, "invalid string: ill-formed UTF-8");
}

TEST(JsonText, RefusesDuplicateKeys) {
  EXPECT_ERROR((void)parse_json(R"({"a": {"k": 1, "k": 2}})", "x.json"), ErrorCode::kBadModel,
               "x.json: key k occurs twice");
  EXPECT_NO_THROW((void)parse_json(R"([{"k": 1}, {"k": 2, "l": {"k": 3}}])", "x.json"));
}

TEST(JsonText, RefusesDeepNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW((void)parse_json(nested(64), "x.json"));
  EXPECT_ERROR((void)parse_json(nested(66), "x.json"), ErrorCode::kBadModel, "x.json: JSON nested deeper than 64");
  EXPECT_ERROR((void)parse_json(std::string(1 << 20, '['), "x.json"), ErrorCode::kBadModel, "nested deeper than 64");
}

}  // namespace
}  // namespace fathom
