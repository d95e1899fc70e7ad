#include "grammar/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/printable.h"
#include "core/prompt_text.h"
#include "grammar/schema_writer.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxCalls = 64;
constexpr int kMaxNameLength = 64;

class CallWriter {
 public:
  explicit CallWriter(Grammar& grammar) : grammar_(grammar) {}

  // From after the DSML token of the opening tag to the end of the closing one.
  ExprId block(const std::vector<CallableTool>& tools, bool parallel) {
    std::vector<ExprId> calls;
    std::set<std::string> names;
    if (tools.empty()) {
      throw Error(ErrorCode::kBadRequest, "tools: none, expected at least one to call");
    }
    for (const CallableTool& tool : tools) {
      if (!names.insert(tool.name).second) {
        throw Error(ErrorCode::kBadRequest, fmt::format("tool '{}' is offered twice", printable(tool.name)));
      }
      calls.push_back(call(tool));
    }
    const RuleId one = grammar_.add_rule("call");
    grammar_.define(one, grammar_.choice(std::move(calls)));
    const ExprId all = grammar_.repeat(grammar_.rule(one), 1, parallel ? kMaxCalls : 1);
    return grammar_.sequence({grammar_.literal("tool_calls>\n"), all, close_tag("tool_calls>")});
  }

 private:
  ExprId open_tag(const std::string& rest) {
    return grammar_.sequence({grammar_.literal("<"), grammar_.token(literal::kDsml), grammar_.literal(rest)});
  }
  ExprId close_tag(const std::string& rest) {
    return grammar_.sequence({grammar_.literal("</"), grammar_.token(literal::kDsml), grammar_.literal(rest)});
  }

  void check_name(const std::string& name, const std::string& what) const {
    const bool fits =
        !name.empty() && name.find_first_of("\"\n\r") == std::string::npos && name.find("\uFF5C") == std::string::npos;
    if (!fits) {
      throw Error(ErrorCode::kBadRequest, fmt::format("{} '{}': not a name that a call can hold: it is empty or has a "
                                                      "quote, a line end or U+FF5C in it",
                                                      what, printable(name)));
    }
  }

  ExprId call(const CallableTool& tool) {
    check_name(tool.name, "tool");
    try {
      return grammar_.sequence(
          {open_tag("invoke name=\"" + tool.name + "\">\n"), parameters(tool.parameters), close_tag("invoke>\n")});
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("tool '{}': {}", printable(tool.name), error.what()));
    }
  }

  ExprId parameters(const std::string& schema) {
    const ExprId none = grammar_.literal("\n");  // the empty line of a call without arguments
    if (schema.empty()) {
      return none;
    }
    schemas_.push_back(parse_ordered_json(schema, "parameters"));
    const Json& root = schemas_.back();
    if (!root.is_object() && !root.is_boolean()) {
      fail_schema("#", "expected an object");
    }
    SchemaWriter writer(grammar_, root);
    std::vector<ExprId> choices;
    for (const SchemaShape& shape : writer.branches(writer.reader().read({{&root, "#"}}))) {
      if (shape.types.has(SchemaTypes::kObject)) {
        choices.push_back(object(writer, plan_object(shape), none));
      }
    }
    if (choices.empty()) {
      fail_schema("#", "expected a schema of objects");
    }
    writer.finish();
    return grammar_.choice(std::move(choices));
  }

  // Node i: before parameter i. The last one is the end.
  ExprId object(SchemaWriter& writer, const ObjectPlan& plan, ExprId none) {
    if (plan.nothing) {
      return grammar_.nothing();
    }
    const auto n = static_cast<uint32_t>(plan.properties.size());
    std::vector<Expr::NetworkEdge> edges;
    bool may_be_empty = true;
    for (uint32_t i = 0; i < n; ++i) {
      const ObjectPlan::Property& property = plan.properties[i];
      check_name(property.name, "parameter");
      const ExprId name = grammar_.literal(property.name);
      edges.push_back({i, parameter(writer, name, property.nodes, property.name), i + 1});
      if (!property.required) {
        edges.push_back({i, grammar_.literal(""), i + 1});
      }
      may_be_empty = may_be_empty && !property.required;
    }
    if (plan.others) {
      // The names of the schema may come again here; readers take the first of equal ones.
      const CharSet name_chars = CharSet::all().without({{0, 0x1f}, {'"', '"'}, {0xff5c, 0xff5c}});
      const ExprId name = grammar_.repeat(grammar_.chars(name_chars), 1, kMaxNameLength);
      edges.push_back({n, parameter(writer, name, *plan.others, "additionalProperties"), n});
    }
    edges.push_back({n, grammar_.literal(""), n + 1});
    const ExprId some = grammar_.network(n + 2, std::move(edges));
    return may_be_empty ? grammar_.choice({none, some}) : some;
  }

  ExprId parameter(SchemaWriter& writer, ExprId name, const SchemaNodes& nodes, const std::string& path) {
    std::vector<ExprId> values;
    for (SchemaShape shape : writer.branches(writer.reader().read(nodes))) {
      const ExprId close = close_tag("parameter>\n");
      if (shape.types.has(SchemaTypes::kString)) {
        const RuleId text = grammar_.add_rule("text of " + path);
        grammar_.define(text, grammar_.sequence({writer.argument_text(shape, path), close}));
        values.push_back(grammar_.sequence({grammar_.literal("true\">"), grammar_.rule(text)}));
      }
      shape.types.bits &= static_cast<uint8_t>(~SchemaTypes::kString);
      if (shape.types.bits != 0) {
        values.push_back(grammar_.sequence({grammar_.literal("false\">"), writer.shape_value(shape, path), close}));
      }
    }
    return grammar_.sequence(
        {open_tag("parameter name=\""), name, grammar_.literal("\" string=\""), grammar_.choice(std::move(values))});
  }

  Grammar& grammar_;
  std::deque<Json> schemas_;  // that writers refer to
};

// The block with what comes before its DSML token.
ExprId whole_block(Grammar& grammar, ExprId block) {
  return grammar.sequence({grammar.literal("\n\n<"), grammar.token(literal::kDsml), block});
}

}  // namespace

Grammar tool_calls_grammar(const std::vector<CallableTool>& tools, const ToolCallOptions& options) {
  Grammar grammar;
  grammar.root = grammar.add_rule("tool calls");
  const ExprId block = CallWriter(grammar).block(tools, options.parallel);
  grammar.define(grammar.root, options.after_trigger ? block : whole_block(grammar, block));
  return grammar;
}

Grammar calls_or_json_grammar(const std::vector<CallableTool>& tools, const ToolCallOptions& options,
                              const std::string& schema) {
  const Json root = parse_ordered_json(schema, "schema");
  if (!root.is_object() && !root.is_boolean()) {
    fail_schema("#", "expected an object");
  }
  Grammar grammar;
  grammar.root = grammar.add_rule("tool calls or JSON");
  SchemaWriter writer(grammar, root);
  const ExprId answer = writer.value({{&root, "#"}});
  writer.finish();
  const ExprId calls = whole_block(grammar, CallWriter(grammar).block(tools, options.parallel));
  grammar.define(grammar.root, grammar.choice({calls, answer}));
  return grammar;
}

}  // namespace fathom
