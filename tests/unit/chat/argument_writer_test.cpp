#include "chat/argument_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace fathom {
namespace {

using Flag = DsmlTag::Flag;

struct Parameter {
  std::string name;
  Flag flag;
  std::string value;
};

// The arguments that these parameters make; "s", "i", "b", "o", "n" are of the types that their letters stand for.
std::string write(const std::vector<Parameter>& parameters) {
  static const ToolSchemas tools(std::vector<Tool>{{.name = "f", .definition = R"({"parameters": {"properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"}, "o": {"type": "object"},
      "n": {"type": ["number", "null"]}, "any": {}}}})"}});
  ArgumentWriter writer(tools.of("f"));
  std::string out;
  for (const Parameter& parameter : parameters) {
    static_cast<void>(writer.begin(parameter.name, parameter.flag, out));
    for (const char c : parameter.value) {
      writer.text({&c, 1}, out);
    }
    writer.end(out);
  }
  writer.finish(out);
  return out;
}

TEST(ArgumentWriter, WritesAnObjectInTheOrderOfTheParameters) {
  EXPECT_EQ(write({}), "{}");
  EXPECT_EQ(write({{"x", Flag::kString, "1"}, {"a \"b\"", Flag::kJson, " [1,  2]\n"}}),
            R"({"x": "1", "a \"b\"": [1,  2]})");
  EXPECT_EQ(write({{"x", Flag::kString, "q\"\\\n\t\x01/\x7f"}}), "{\"x\": \"q\\\"\\\\\\n\\t\\u0001/\x7f\"}");
}

TEST(ArgumentWriter, TheFlagDecidesUnlessTheSchemaKnowsBetter) {
  const std::tuple<const char*, Flag, const char*, const char*> cases[] = {
      {"s", Flag::kString, "42", R"("42")"},
      {"s", Flag::kNone, "42", R"("42")"},
      {"s", Flag::kJson, "42", "42"},
      {"any", Flag::kString, "42", R"("42")"},
      {"any", Flag::kNone, "42", R"("42")"},
      {"any", Flag::kJson, "oops ", R"("oops ")"},
      {"any", Flag::kJson, "True", R"("True")"},
      {"i", Flag::kString, " 42 ", "42"},
      {"i", Flag::kString, "4.5", R"("4.5")"},
      {"i", Flag::kString, "many", R"("many")"},
      {"i", Flag::kNone, "42", "42"},
      {"i", Flag::kJson, "many", R"("many")"},
      {"b", Flag::kString, "true", "true"},
      {"b", Flag::kString, "True", "true"},
      {"b", Flag::kJson, "False", "false"},
      {"b", Flag::kNone, "True", "true"},
      {"o", Flag::kString, R"({"k": 1})", R"({"k": 1})"},
      {"o", Flag::kString, R"([1])", R"("[1]")"},
      {"n", Flag::kString, "1", "1"},
      {"n", Flag::kString, "1.5", "1.5"},
      {"n", Flag::kString, "null", "null"},
      {"n", Flag::kString, "\"x\"", R"("\"x\"")"},
  };
  for (const auto& [name, flag, value, expected] : cases) {
    EXPECT_EQ(write({{name, flag, value}}), std::string("{\"") + name + "\": " + expected + "}")
        << static_cast<int>(flag) << value;
  }
}

TEST(ArgumentWriter, StringsStreamAndOtherValuesWait) {
  const ToolSchema schema;
  ArgumentWriter writer(schema);
  std::string out;
  EXPECT_TRUE(writer.empty());
  EXPECT_TRUE(writer.begin("a", Flag::kString, out));
  EXPECT_EQ(out, "{\"a\": \"");
  writer.text("x", out);
  EXPECT_EQ(out, "{\"a\": \"x");
  writer.end(out);
  EXPECT_TRUE(writer.begin("b", Flag::kJson, out));
  writer.text("1", out);
  EXPECT_EQ(out, "{\"a\": \"x\"");
  writer.end(out);
  EXPECT_EQ(out, "{\"a\": \"x\", \"b\": 1");
  EXPECT_FALSE(writer.empty());
}

TEST(ArgumentWriter, OfEqualNamesTheFirstCounts) {
  EXPECT_EQ(write({{"x", Flag::kString, "1"}, {"x", Flag::kString, "2"}, {"y", Flag::kJson, "3"}}),
            R"({"x": "1", "y": 3})");
}

TEST(ArgumentWriter, UnwrapsArgumentsThatAreAllInOneParameter) {
  for (const char* name : {"arguments", "input"}) {
    for (const Flag flag : {Flag::kString, Flag::kJson}) {
      EXPECT_EQ(write({{name, flag, R"({"s":"a","i":1})"}}), R"({"s": "a", "i": 1})");
    }
  }
  EXPECT_EQ(write({{"arguments", Flag::kJson, R"({"s": 1, "other": 2})"}}), R"({"arguments": {"s": 1, "other": 2}})");
  EXPECT_EQ(write({{"arguments", Flag::kString, "plain"}}), R"({"arguments": "plain"})");
  EXPECT_EQ(write({{"arguments", Flag::kJson, R"({"s": 1})"}, {"i", Flag::kJson, "2"}}),
            R"({"arguments": {"s": 1}, "i": 2})");
  EXPECT_EQ(write({{"i", Flag::kJson, "2"}, {"arguments", Flag::kJson, R"({"s": 1})"}}),
            R"({"i": 2, "arguments": {"s": 1}})");
}

TEST(ArgumentWriter, TakesJsonInsteadOfParameters) {
  const ToolSchema schema;
  for (const auto& [body, expected] :
       {std::pair{R"({"a":1,"a":2} )", R"({"a": 2})"}, std::pair{"{oops\n", R"({"arguments": "{oops"})"}}) {
    ArgumentWriter writer(schema);
    std::string out;
    writer.begin_body();
    writer.text(body, out);
    writer.end(out);
    EXPECT_FALSE(writer.empty());
    EXPECT_FALSE(writer.begin("x", Flag::kString, out));
    writer.text("late", out);
    writer.end(out);
    writer.finish(out);
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace fathom
