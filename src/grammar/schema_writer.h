// JSON schemas as part of a grammar.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/schema_shape.h"
#include "grammar/text_coding.h"

namespace fathom {

// Every name that the schemas of an object mention, in that order; and the schemas of all others, if there may be any.
struct ObjectPlan {
  struct Property {
    std::string name;
    SchemaNodes nodes;
    bool required = false;
  };
  std::vector<Property> properties;
  std::vector<std::string> names;     // forbidden ones included
  std::optional<SchemaNodes> others;  // a schema that lists properties and says nothing of others is meant to have none
  bool nothing = false;               // no object satisfies them
};

[[nodiscard]] ObjectPlan plan_object(const SchemaShape& shape);

// Values of the schemas in one JSON text, written as json.dumps does, without spaces, or on lines of their own.
class SchemaWriter {
 public:
  // `root` is what "#" refers to. Both outlive the writer.
  SchemaWriter(Grammar& grammar, const nlohmann::ordered_json& root) : grammar_(grammar), reader_(root) {}

  // A value that satisfies all of these schemas. Its rules are complete after finish(). Throws kBadRequest naming what
  // is not supported.
  [[nodiscard]] ExprId value(const SchemaNodes& nodes);
  void finish();

  [[nodiscard]] const SchemaReader& reader() const { return reader_; }
  // Of a shape without open choices, for each of its combinations of branches.
  [[nodiscard]] std::vector<SchemaShape> branches(SchemaShape shape);
  [[nodiscard]] ExprId shape_value(const SchemaShape& shape, const std::string& path);
  // A string as it is, without quotes; ends with `tail`. No text if the shape has no strings.
  [[nodiscard]] ExprId argument_text(const SchemaShape& shape, const std::string& path);

 private:
  struct Task {
    RuleId rule;
    SchemaNodes nodes;
  };

  [[nodiscard]] ExprId literal_value(const nlohmann::ordered_json& value);
  [[nodiscard]] ExprId string_value(const SchemaShape& shape, const std::string& path);
  [[nodiscard]] ExprId patterned_text(const SchemaShape& shape, const std::string& path, TextCoding coding);
  [[nodiscard]] ExprId any_string_rest(int min, std::optional<int> max);
  [[nodiscard]] ExprId array_value(const SchemaShape& shape);
  [[nodiscard]] ExprId object_value(const SchemaShape& shape);
  [[nodiscard]] ExprId other_key(const std::vector<std::string>& names);
  [[nodiscard]] bool fits(const nlohmann::ordered_json& value, const SchemaShape& shape);
  [[nodiscard]] bool string_fits(const std::string& text, const SchemaShape& shape);

  [[nodiscard]] ExprId space();
  [[nodiscard]] ExprId comma();
  [[nodiscard]] ExprId colon();

  Grammar& grammar_;
  SchemaReader reader_;
  std::map<std::vector<const void*>, RuleId> rules_;  // by schemas
  std::deque<Task> tasks_;
  std::map<std::pair<int, int>, RuleId> strings_;  // by lengths; -1: no maximum
  std::optional<RuleId> space_;
  std::optional<RuleId> key_rest_;
};

}  // namespace fathom
