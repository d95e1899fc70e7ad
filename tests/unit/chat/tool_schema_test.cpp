#include "chat/tool_schema.h"

#include <gtest/gtest.h>

#include <utility>

namespace fathom {
namespace {

ToolSchemas schemas(const std::string& properties) {
  return ToolSchemas(
      std::vector<Tool>{{.name = "f", .definition = R"({"parameters": {"properties": )" + properties + "}}"}});
}

TEST(ToolSchema, KnowsTheTypesOfParameters) {
  const std::pair<const char*, JsonTypes> cases[] = {
      {R"({"type": "string"})", JsonTypes::kString},
      {R"({"type": "integer"})", JsonTypes::kInteger},
      {R"({"type": "number"})", JsonTypes::kNumber | JsonTypes::kInteger},
      {R"({"type": ["boolean", "null"]})", JsonTypes::kBoolean | JsonTypes::kNull},
      {R"({"type": ["boolean", "odd"]})", JsonTypes::kUnknown},
      {R"({"enum": ["a", 1]})", JsonTypes::kString | JsonTypes::kInteger},
      {R"({"const": 1.5})", JsonTypes::kNumber},
      {R"({"anyOf": [{"type": "object"}, {"oneOf": [{"type": "array"}]}]})", JsonTypes::kObject | JsonTypes::kArray},
      {R"({"anyOf": [{"type": "object"}, {"$ref": "#/x"}]})", JsonTypes::kUnknown},
      {R"({})", JsonTypes::kUnknown},
      {R"(true)", JsonTypes::kUnknown},
  };
  for (const auto& [schema, types] : cases) {
    const ToolSchemas tools = schemas(std::string("{\"x\": ") + schema + "}");
    EXPECT_TRUE(tools.of("f").has("x"));
    EXPECT_EQ(tools.of("f").types("x"), types) << schema;
  }
}

TEST(ToolSchema, KnowsNothingOfOtherToolsAndParameters) {
  const ToolSchemas tools = schemas(R"({"x": {"type": "string"}})");
  EXPECT_FALSE(tools.empty());
  EXPECT_FALSE(tools.of("f").has("y"));
  EXPECT_EQ(tools.of("f").types("y"), JsonTypes::kUnknown);
  EXPECT_FALSE(tools.of("g").has("x"));
  EXPECT_TRUE(ToolSchemas().empty());
  for (const char* definition : {"", "[]", R"({"parameters": []})", R"({"parameters": {"properties": 1}})"}) {
    EXPECT_FALSE(ToolSchemas(std::vector<Tool>{{.name = "f", .definition = definition}}).of("f").has("x"))
        << definition;
  }
}

TEST(ToolSchema, TellsTheTypeOfJson) {
  EXPECT_EQ(type_of_json(" 1 "), JsonTypes::kInteger);
  EXPECT_EQ(type_of_json("-1e3"), JsonTypes::kNumber);
  EXPECT_EQ(type_of_json("\"e\""), JsonTypes::kString);
  EXPECT_EQ(type_of_json("false"), JsonTypes::kBoolean);
  EXPECT_EQ(type_of_json("null"), JsonTypes::kNull);
  EXPECT_EQ(type_of_json("[1]"), JsonTypes::kArray);
  EXPECT_EQ(type_of_json("{}"), JsonTypes::kObject);
  for (const char* text : {"", " ", "True", "{oops", "1 2"}) {
    EXPECT_EQ(type_of_json(text), std::nullopt) << text;
  }
  EXPECT_EQ(type_of_json(std::string_view("1\0x", 3)), std::nullopt);
}

}  // namespace
}  // namespace fathom
