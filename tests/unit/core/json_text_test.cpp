#include "core/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/expect_error.h"

namespace fathom {
namespace {

TEST(JsonText, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"( {"b": 1, "a": {"c": [1.5, true, null]}} )", "x.json").dump(),
            R"({"b":1,"a":{"c":[1.5,true,null]}})");
}

TEST(JsonText, SaysWhereTheTextIsInvalid) {
  EXPECT_ERROR((void)parse_json("", "x.json"), ErrorCode::kBadModel, "x.json: not valid JSON: parse error at line 1");
  EXPECT_ERROR((void)parse_json("{\"a\": }", "x.json"), ErrorCode::kBadModel, "line 1, column 7: syntax error");
  EXPECT_ERROR((void)parse_json("{} {}", "x.json"), ErrorCode::kBadModel, "expected end of input");
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

TEST(JsonText, ChecksLargeJsonAlike) {
  EXPECT_EQ(parse_large_json(R"({"b": 1, "a": 2})", "x.json").dump(), R"({"a":2,"b":1})");
  EXPECT_ERROR((void)parse_large_json(R"({"k": 1, "k": 2})", "x.json"), ErrorCode::kBadModel,
               "x.json: key k occurs twice");
}

}  // namespace
}  // namespace fathom
