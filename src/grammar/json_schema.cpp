#include "grammar/json_schema.h"

#include <nlohmann/json.hpp>

#include "core/ordered_json.h"
#include "grammar/schema_writer.h"

namespace fathom {

Grammar json_schema_grammar(std::string_view schema) {
  const nlohmann::ordered_json root = parse_ordered_json(schema, "schema");
  if (!root.is_object() && !root.is_boolean()) {
    fail_schema("#", "expected an object");
  }
  Grammar grammar;
  SchemaWriter writer(grammar, root);
  grammar.root = grammar.add_rule("schema #");
  grammar.define(grammar.root, writer.value({{&root, "#"}}));
  writer.finish();
  return grammar;
}

Grammar json_object_grammar() { return json_schema_grammar(R"({"type": "object"})"); }

}  // namespace fathom
