#include "grammar/json_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/json_number.h"
#include "matching.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

struct Case {
  const char* schema;
  std::vector<std::string> in;
  std::vector<std::string> out;
};

void check(const Case& c) {
  SCOPED_TRACE(c.schema);
  const Automaton automaton = compile_grammar(json_schema_grammar(c.schema));
  for (const std::string& text : c.in) {
    EXPECT_TRUE(nlohmann::json::accept(text)) << "not JSON: " << text;
    EXPECT_TRUE(matches(automaton, text)) << "must match: " << text;
  }
  for (const std::string& text : c.out) {
    EXPECT_FALSE(matches(automaton, text)) << "must not match: " << text;
  }
}

TEST(JsonSchema, Scalars) {
  check({R"({"type": "string"})",
         {R"("")", R"("abc \" \\ \/ \b\f\n\r\t \u00e9 \ud83d\ude00")", "\"\xc3\xa9\""},
         {"abc", R"("a)", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ud83dx")", R"("\ude00")", "\"\n\"", "\"\xff\"",
          "1"}});
  check({R"({"type": "boolean"})", {"true", "false"}, {"null", "True", "0"}});
  check({R"({"type": "null"})", {"null"}, {"", "false"}});
  check(
      {R"({"type": "integer"})", {"0", "-1", "123456789012345"}, {"01", "1.0", "1e3", "-", "1234567890123456", "+1"}});
  check({R"({"type": "number"})",
         {"0", "-1.5", "1e3", "1.25E-07", "12.0000000001"},
         {".5", "1.", "1e", "1e100", "00", "--1", "NaN"}});
  check({R"({"type": ["integer", "null", "boolean"]})", {"3", "null", "true"}, {"\"a\"", "3.5", "[]"}});
  check({R"({"type": "string", "nullable": true})", {"null", "\"a\""}, {"1"}});
  check({R"({"minLength": 2, "maxLength": 3, "type": "string"})",
         {R"("ab")", R"("a\n\u0041")", "\"\xc3\xa9\xf0\x9f\x98\x80\"", R"("\ud83d\ude00x")"},
         {R"("a")", R"("abcd")", R"("\ud83d\ude00")"}});
  check({R"({"type": "integer", "multipleOf": 1})", {"7"}, {"7.5"}});
  check({"true", {"1", "[{}]", R"({"a": [null]})"}, {"", "{a:1}"}});
}

TEST(JsonSchema, EnumAndConst) {
  check(
      {R"({"enum": ["a\"b", 1.5, null, {"x": [1, 2]}, []]})",
       {R"("a\"b")", "1.5", "null", R"({"x": [1, 2]})", R"({"x":[1,2]})", "{\n  \"x\": [\n    1,\n    2\n  ]\n}", "[]"},
       {"1", R"({"x": [2, 1]})", "{}"}});
  check({R"({"const": -3})", {"-3"}, {"3", "-3.0"}});
  check({R"({"type": "string", "enum": ["a", 1, "ccc", "d0"], "maxLength": 2, "pattern": "[a-z]$"})",
         {R"("a")"},
         {"1", R"("ccc")", R"("d0")"}});
  check({R"({"enum": [1, 2, 3, 4.5, 6], "exclusiveMinimum": 1, "maximum": 4.5})", {"2", "3", "4.5"}, {"1", "6"}});
  check({R"({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})", {"2"}, {"1", "3"}});
}

TEST(JsonSchema, Objects) {
  check({R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}},
             "required": ["b"]})",
         {R"({"a": 1, "b": "x", "c": null})", R"({"b":"x"})", R"({"a":1,"b":"x"})",
          "{\n  \"b\": \"x\",\n  \"c\": null\n}", R"({ "b": "x" })", "{\n\t\"b\": \"\"\n}"},
         {"{}", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"b": "x",})", R"({"b": "x", "d": 1})", R"({"b":  "x"})",
          R"({"b" : "x"})", "{  \"b\": \"x\"}", R"({"a": 1 "b": "x"})", R"({,"b": "x"})",
          R"({"a": 1, "a": 1, "b": "x"})"}});
  check({R"({"type": "object", "properties": {"a": {"type": "integer"}}})",
         {"{}", "{ }", R"({"a": 2})"},
         {R"({"b": 1})"}});
  check({R"({"type": "object", "properties": {"abc": {"type": "integer"}, "ab": {"const": 1}},
             "additionalProperties": {"type": "boolean"}})",
         {R"({"abc": 1, "ab": 1, "x": true})", R"({"a": true, "abcd": false})", R"({"abx": true})",
          "{\"\xc3\xa9\": true}"},
         {R"({"abc": true})", R"({"ab": true})", R"({"x": 1})", R"({"": true})", R"({"\u0061bc": true})"}});
  check({R"({"type": "object"})", {"{}", R"({"a": [1, {"b": {}}], "c": "d"})"}, {"[]", R"({"a"})"}});
  check({R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a": 1})"}});
  check({R"({"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}})",
         {R"({"x": 1})", R"({"x": 1, "y": 2})"},
         {"{}", R"({"x": "a"})", R"({"y": 1})"}});
  check({R"({"type": "object", "properties": {"a": {}}, "minProperties": 1})", {R"({"a": 1})"}, {"{}"}});
  check({R"({"type": "object", "properties": {"a": {}, "b": false}})", {R"({"a": 1})"}, {R"({"b": 1})"}});
  check({R"({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false, "maxProperties": 1})",
         {R"({"a": 1})"},
         {R"({"x": 1})"}});
}

TEST(JsonSchema, Arrays) {
  check({R"({"type": "array", "items": {"type": "integer"}})",
         {"[]", "[1]", "[1, 2,3]", "[\n  1,\n  2\n]", "[ ]"},
         {"[1,]", "[\"a\"]", "[1 2]", "[,1]", "[1, 2"}});
  check({R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
         {"[1, 2]", "[1, 2, 3]"},
         {"[]", "[1]", "[1, 2, 3, 4]"}});
  check({R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]})",
         {"[]", "[1]", R"([1, "a"])"},
         {R"(["a"])", R"([1, "a", 2])"}});
  check({R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}, "minItems": 1})",
         {"[1]", R"([1, "a", "b"])"},
         {"[]", "[1, 2]"}});
  check({R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": false})", {"[]", "[1]"}, {"[1, 2]"}});
  check({R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}});
  check({R"({"type": "array", "items": false})", {"[]"}, {"[1]"}});
  check({R"({"type": "array", "items": {"type": "null"}, "minItems": 70, "maxItems": 71})",
         {"[null" +
          [] {
            std::string s;
            for (int i = 0; i < 69; ++i) {
              s += ", null";
            }
            return s;
          }() +
          "]"},
         {"[null]"}});
}

TEST(JsonSchema, ChoicesAndReferences) {
  check(
      {R"({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}]})",
       {R"("x")", R"({"a": 1})"},
       {"{}", "1"}});
  check({R"({"properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"], "type": "object",
             "anyOf": [{"properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["x"]},
                       {"properties": {"k": {"const": "b"}}}]})",
         {R"({"k": "a", "x": 1})", R"({"k": "b"})"},
         {R"({"k": "a"})", R"({"k": "b", "x": 1})"}});
  check(
      {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": 1}, "v": {"type": "string"}}, "required": ["t"]},
                       {"type": "object", "properties": {"t": {"const": 2}, "v": {"type": "null"}}, "required": ["t"]},
                       {"type": "integer", "maximum": 3}, {"type": "number", "exclusiveMinimum": 3}, {"type": "null"}]})",
       {R"({"t": 1, "v": "a"})", R"({"t": 2, "v": null})", "3", "3.5", "null"},
       {R"({"t": 1, "v": null})", R"({"t": 3})", "2.5"}});
  check({R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                       {"properties": {"b": {"minimum": 5}, "a": {"minimum": 3}}}]})",
         {R"({"a": 3})", R"({"a": 4, "b": 5})", R"({"a": 4, "b": "free"})"},
         {R"({"a": 2})", R"({"a": 3, "b": 4})", "{}"}});
  check({R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "required": ["v"], "properties": {
              "v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}}})",
         {R"({"v": 1})", R"({"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3}]})"},
         {R"({"v": 1, "kids": [{"kids": []}]})"}});
  check({R"({"definitions": {"a/b~c": {"const": 1}}, "properties": {"x": {"$ref": "#/definitions/a~1b~0c"},
             "y": {"$ref": "#"}}, "type": "object"})",
         {R"({"x": 1})", R"({"y": {"y": {"x": 1}}})"},
         {R"({"x": 2})"}});
  check({R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]})",
         {"[1, [2, [[]]]]"},
         {"[null]"}});
  check({R"({"anyOf": [false, {"const": 1}]})", {"1"}, {"2"}});
}

TEST(JsonSchema, PatternsAndFormats) {
  check({R"({"type": "string", "pattern": "^[a-c]+\"?$"})", {R"("abc")", R"("a\"")"}, {R"("d")", R"("")", R"("a"")"}});
  check({R"({"type": "string", "pattern": "b"})", {R"("abc")", R"("\n\u0001b\\")"}, {R"("ac")"}});
  check({R"({"type": "string", "pattern": "^a", "minLength": 2, "maxLength": 3})",
         {R"("ab")", R"("a\n\"")"},
         {R"("a")", R"("abcd")", R"("ba")"}});
  check(
      {R"({"allOf": [{"pattern": "^a"}, {"pattern": "z$"}], "type": "string"})", {R"("az")", R"("a..z")"}, {R"("a")"}});
  check({R"({"type": "string", "pattern": "^x{2,900}$"})", {"\"" + std::string(900, 'x') + "\""}, {R"("x")"}});
  check({R"({"type": "string", "format": "date"})",
         {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
         {R"("2023-02-29")", R"("1900-02-29")", R"("2023-13-01")", R"("2023-04-31")", R"("today")"}});
  check({R"({"type": "string", "format": "date-time"})",
         {R"("2024-02-29T23:59:59Z")", R"("1999-12-31T00:00:00.123+01:30")"},
         {R"("2024-02-29 23:59:59Z")", R"("2024-02-29T24:00:00Z")", R"("2024-02-29T10:00:00")"}});
  check({R"({"type": "string", "format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}});
  check({R"({"type": "string", "format": "email"})", {R"("a.b@example.com")"}, {R"("a.b")", R"("a@b@c.de")"}});
  check({R"({"type": "string", "format": "ipv4"})",
         {R"("255.0.10.199")"},
         {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}});
  check({R"({"type": "string", "format": "ipv6"})", {R"("fe80:0:0:0:1:2:3:abcd")"}, {R"("fe80")"}});
  check({R"({"type": "string", "format": "uri"})", {R"("https://example.com/a/b?c=d")"}, {R"("example")"}});
  check({R"({"type": "string", "format": "hostname"})", {R"("a-b.example.org")"}, {R"("-a.org")"}});
  check({R"({"type": "string", "format": "time"})", {R"("10:20:30Z")"}, {R"("10:20")"}});
  check({R"({"type": "string", "format": "duration"})", {R"("P3D")", R"("PT10M")"}, {R"("P")"}});
  check({R"({"type": "string", "format": "whatever"})", {R"("anything")"}, {"1"}});
}

// Every number with up to two digits before and after the point, in and around ranges with all kinds of ends.
TEST(JsonSchema, NumbersAreBoundedToTheDigit) {
  const double ends[] = {-12, -2.5, 0, 0.5, 1.05, 10, 25};
  std::vector<std::string> numbers;
  for (const char* sign : {"", "-"}) {
    for (int whole : {0, 1, 2, 3, 9, 10, 11, 12, 13, 24, 25, 26, 99}) {
      numbers.push_back(fmt::format("{}{}", sign, whole));
      for (const char* fraction :
           {"0", "5", "2", "3", "00", "05", "06", "04", "25", "24", "26", "49", "50", "51", "98", "99"}) {
        numbers.push_back(fmt::format("{}{}.{}", sign, whole, fraction));
      }
    }
  }
  for (const double min : ends) {
    for (const double max : ends) {
      for (int kinds = 0; kinds < 32; ++kinds) {
        const bool has_min = (kinds & 1) != 0;
        const bool has_max = (kinds & 2) != 0;
        const bool open_min = (kinds & 4) != 0;
        const bool open_max = (kinds & 8) != 0;
        const bool integer = (kinds & 16) != 0;
        if ((!has_min && (open_min || min != ends[0])) || (!has_max && (open_max || max != ends[0])) ||
            (!has_min && !has_max)) {
          continue;
        }
        nlohmann::ordered_json schema = {{"type", integer ? "integer" : "number"}};
        if (has_min) {
          schema[open_min ? "exclusiveMinimum" : "minimum"] = min;
        }
        if (has_max) {
          schema[open_max ? "exclusiveMaximum" : "maximum"] = max;
        }
        // A choice that never matches, for ranges that are empty.
        const nlohmann::ordered_json whole = {{"anyOf", {schema, {{"const", "never"}}}}};
        const Automaton automaton = compile_grammar(json_schema_grammar(whole.dump()));
        for (const std::string& text : numbers) {
          const double value = std::stod(text);
          const bool inside = (!has_min || (open_min ? value > min : value >= min)) &&
                              (!has_max || (open_max ? value < max : value <= max)) &&
                              (!integer || text.find('.') == std::string::npos) && (value != 0 || text[0] != '-');
          ASSERT_EQ(matches(automaton, text), inside) << schema << " " << text;
        }
      }
    }
  }
}

TEST(JsonSchema, HugeBoundsAreKept) {
  check({R"({"type": "integer", "minimum": 12345678901234567})",
         {"12345678901234567", "99999999999999999"},
         {"12345678901234566", "5"}});
  check({R"({"type": "integer", "maximum": 1e30})", {"5", "-5"}, {}});
  check({R"({"type": "number", "minimum": 1e-7, "maximum": 0.000001})",
         {"0.0000005", "0.0000001"},
         {"0", "0.00000001", "0.1"}});
  check({R"({"type": "integer", "minimum": 100000000000000000000000})", {"100000000000000000000000"}, {"5"}});
}

TEST(JsonSchema, SaysWhatIsNotSupportedAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "schema: not valid JSON"},
      {"[]", "schema: #: expected an object"},
      {R"({"type": "integer", "multipleOf": 3})", "schema: #/multipleOf: not supported"},
      {R"({"properties": {"a/b": {"not": {}}}})", "schema: #/properties/a~1b/not: not supported"},
      {R"({"type": "array", "items": {"if": {}}})", "schema: #/items/if: not supported"},
      {R"({"patternProperties": {}})", "schema: #/patternProperties: not supported"},
      {R"({"uniqueItems": true})", "schema: #/uniqueItems: not supported"},
      {R"({"uniqueItems": 1})", "schema: #/uniqueItems: expected a boolean, got number"},
      {R"({"unevaluatedProperties": {}})", "schema: #/unevaluatedProperties: supported as false only"},
      {R"({"type": "int"})", "schema: #/type: unknown type 'int'"},
      {R"({"type": 3})", "schema: #/type: expected a string, got number"},
      {R"({"enum": 3})", "schema: #/enum: expected an array, got number"},
      {R"({"minimum": "3"})", "schema: #/minimum: expected a number, got string"},
      {R"({"exclusiveMinimum": true})", "schema: #/exclusiveMinimum: expected a number, got boolean"},
      {R"({"minLength": -1})", "schema: #/minLength: expected a whole number, not negative, got number"},
      {R"({"minItems": 100001})", "schema: #/minItems: more than 100000"},
      {R"({"required": "a"})", "schema: #/required: expected an array of names, got string"},
      {R"({"required": [1]})", "schema: #/required/0: expected a string, got number"},
      {R"({"properties": []})", "schema: #/properties: expected an object, got array"},
      {R"({"properties": {"a": 1}})", "schema: #/properties/a: expected a schema (an object or a boolean), got number"},
      {R"({"anyOf": []})", "schema: #/anyOf: expected an array of schemas, got array"},
      {R"({"$ref": "other.json"})", "schema: #/$ref: 'other.json': only references into the schema itself"},
      {R"({"$ref": "#/$defs/a"})", "schema: #/$ref: '#/$defs/a' is not in the schema"},
      {R"({"$ref": "#"})", "schema: #/$ref: '#' refers to itself"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
       "schema: #/$defs/b/$ref: '#/$defs/a' refers to itself"},
      {R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})", "refers to itself"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "schema: #/oneOf: a value may match both 0 and 1"},
      {R"({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]})", "schema: #/oneOf: a value may match both 0 and 1"},
      {R"({"type": "string", "pattern": "(?=a)b"})", "schema: #/pattern: regex '(?=a)b', position 1: look-around"},
      {R"({"type": "string", "pattern": "a", "maxLength": 1001})",
       "minLength and maxLength over 1000 are not supported together with pattern or format"},
      {R"({"type": "string", "pattern": "^[a-z]{65,90}$", "minLength": 70})",
       "grammar: counts over 64 are not supported together with other patterns"},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 2})",
       "schema: #/minProperties: more than the required properties (and more than 1) is not supported"},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1})",
       "schema: #/maxProperties: less than all properties is not supported"},
      {R"({"enum": [{"a": 1}], "required": ["a"]})",
       "schema: #/enum: objects and arrays are not supported together with keywords about them"},
      {"false", "grammar: no text matches 'schema #'"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "grammar: no text matches 'schema #'"},
      {R"({"type": "integer", "minimum": 2, "maximum": 1})", "grammar: no text matches 'schema #'"},
      {R"({"minimum": 1e400})", "schema: not valid JSON"},
  };
  for (const auto& [schema, message] : cases) {
    EXPECT_ERROR(static_cast<void>(compile_grammar(json_schema_grammar(schema))), ErrorCode::kBadRequest, message);
  }
  EXPECT_ERROR(static_cast<void>(json_schema_grammar("{\"minimum\": 1" + std::string(400, '0') + "}")),
               ErrorCode::kBadRequest, "schema: ");
}

TEST(JsonSchema, HostileSchemasEndWithAnError) {
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 2000; ++i) {
    chain += fmt::format(R"("d{}": {{"$ref": "#/$defs/d{}"}}, )", i, i + 1);
  }
  chain += R"("d2000": {}}})";
  EXPECT_ERROR(static_cast<void>(json_schema_grammar(chain)), ErrorCode::kBadRequest,
               "references nested deeper than 100");

  std::string product = R"({"allOf": [)";
  for (int i = 0; i < 40; ++i) {
    product += fmt::format(R"({}{{"anyOf": [{{"minimum": {}}}, {{"maximum": {}}}]}})", i == 0 ? "" : ",", i, i);
  }
  EXPECT_ERROR(static_cast<void>(json_schema_grammar(product + "]}")), ErrorCode::kBadRequest,
               "schema: #: too large: more than");
  std::string choices = R"({"allOf": [)";
  for (int i = 0; i < 60; ++i) {
    choices += i == 0 ? R"({"anyOf": [{}]})" : R"(,{"anyOf": [{}]})";
  }
  EXPECT_ERROR(static_cast<void>(json_schema_grammar(choices + "]}")), ErrorCode::kBadRequest,
               "more than 50 choices at once");
}

}  // namespace
}  // namespace fathom
