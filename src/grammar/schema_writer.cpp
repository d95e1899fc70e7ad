#include "grammar/schema_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/prompt_text.h"
#include "core/utf8.h"
#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"
#include "grammar/string_format.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxChoices = 50;
// A reply needs a way out of an object: no key of a map is longer.
constexpr int kMaxKeyLength = 64;

const CharSet& raw_string_chars() {
  static const CharSet set = CharSet::all().without({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}});
  return set;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out + '"';
}

std::vector<char32_t> chars_of(std::string_view text) {
  std::vector<char32_t> chars;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    chars.push_back(c.value);
    text.remove_prefix(c.size);
  }
  return chars;
}

// What one character of a string may look like: itself or any of JSON's escapes.
ExprId any_string_char(Grammar& grammar) {
  const CharSet hex = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const auto hexes = [&](int n) { return grammar.repeat(grammar.chars(hex), n, n); };
  // \uXXXX but no half of a surrogate pair; then a pair.
  const ExprId unit = grammar.choice(
      {grammar.sequence({grammar.chars(hex.without({{'D', 'D'}, {'d', 'd'}})), hexes(3)}),
       grammar.sequence({grammar.chars({{'D', 'D'}, {'d', 'd'}}), grammar.chars({{'0', '7'}}), hexes(2)})});
  const ExprId high = grammar.sequence(
      {grammar.chars({{'D', 'D'}, {'d', 'd'}}), grammar.chars({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hexes(2)});
  const ExprId low = grammar.sequence({grammar.literal("\\u"), grammar.chars({{'D', 'D'}, {'d', 'd'}}),
                                       grammar.chars({{'C', 'F'}, {'c', 'f'}}), hexes(2)});
  const ExprId escape = grammar.choice(
      {grammar.chars(
           {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}}),
       grammar.sequence({grammar.literal("u"), grammar.choice({unit, grammar.sequence({high, low})})})});
  return grammar.choice({grammar.chars(raw_string_chars()), grammar.sequence({grammar.literal("\\"), escape})});
}

bool is_above(const Decimal& value, const Bound& min) {
  return min.exclusive ? less(min.value, value) : !less(value, min.value);
}

bool is_below(const Decimal& value, const Bound& max) {
  return max.exclusive ? less(value, max.value) : !less(max.value, value);
}

}  // namespace

ExprId SchemaWriter::space() {
  if (!space_) {
    space_ = grammar_.add_rule("space");
    const ExprId line =
        grammar_.sequence({grammar_.literal("\n"), grammar_.choice({grammar_.repeat(grammar_.literal(" "), 0, 40),
                                                                    grammar_.repeat(grammar_.literal("\t"), 1, 8)})});
    grammar_.define(*space_, grammar_.choice({grammar_.literal(""), grammar_.literal(" "), line}));
  }
  return grammar_.rule(*space_);
}

ExprId SchemaWriter::comma() { return grammar_.sequence({grammar_.literal(","), space()}); }

ExprId SchemaWriter::colon() { return grammar_.choice({grammar_.literal(":"), grammar_.literal(": ")}); }

ExprId SchemaWriter::value(const SchemaNodes& nodes) {
  std::vector<const void*> key;
  for (const SchemaNode& node : nodes) {
    key.push_back(node.json);
  }
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [place, is_new] = rules_.try_emplace(std::move(key), RuleId{});
  if (is_new) {
    place->second = grammar_.add_rule("schema " + (nodes.empty() ? "{}" : nodes[0].path));
    tasks_.push_back({place->second, nodes});
  }
  return grammar_.rule(place->second);
}

void SchemaWriter::finish() {
  for (; !tasks_.empty(); tasks_.pop_front()) {
    const Task& task = tasks_.front();
    std::vector<ExprId> choices;
    for (const SchemaShape& shape : branches(reader_.read(task.nodes))) {
      choices.push_back(shape_value(shape, task.nodes.empty() ? "#" : task.nodes[0].path));
    }
    grammar_.define(task.rule, grammar_.choice(std::move(choices)));
  }
}

std::vector<SchemaShape> SchemaWriter::branches(SchemaShape shape) {
  std::vector<SchemaShape> done;
  std::vector<SchemaShape> open = {std::move(shape)};
  while (!open.empty()) {
    SchemaShape next = std::move(open.back());
    open.pop_back();
    if (next.nothing) {
      continue;
    }
    if (next.choices.empty()) {
      done.push_back(std::move(next));
      continue;
    }
    if (next.choices.size() > kMaxChoices) {
      fail_schema(next.choices[0].branches[0].path, fmt::format("more than {} choices at once", kMaxChoices));
    }
    const SchemaShape::Choice choice = std::move(next.choices.back());
    next.choices.pop_back();
    for (size_t i = choice.branches.size(); i-- > 0;) {
      open.push_back(reader_.with(next, choice.branches[i], choice));
    }
  }
  return done;
}

ExprId SchemaWriter::shape_value(const SchemaShape& shape, const std::string& path) {
  std::vector<ExprId> choices;
  if (shape.values) {
    for (const Json* value : *shape.values) {
      if (fits(*value, shape)) {
        choices.push_back(literal_value(*value));
      }
    }
    return grammar_.choice(std::move(choices));
  }
  if (shape.types.has(SchemaTypes::kObject)) {
    choices.push_back(object_value(shape));
  }
  if (shape.types.has(SchemaTypes::kArray)) {
    choices.push_back(array_value(shape));
  }
  if (shape.types.has(SchemaTypes::kString)) {
    choices.push_back(string_value(shape, path));
  }
  if (shape.types.has(SchemaTypes::kInteger)) {
    NumberRange range = shape.number;
    range.integer = !shape.types.has(SchemaTypes::kFraction);
    const RuleId number = grammar_.add_rule("number");
    grammar_.define(number, add_number(grammar_, range));
    choices.push_back(grammar_.rule(number));
  }
  if (shape.types.has(SchemaTypes::kBoolean)) {
    choices.push_back(grammar_.literal("true"));
    choices.push_back(grammar_.literal("false"));
  }
  if (shape.types.has(SchemaTypes::kNull)) {
    choices.push_back(grammar_.literal("null"));
  }
  return grammar_.choice(std::move(choices));
}

ExprId SchemaWriter::literal_value(const Json& value) {
  if (!value.is_structured()) {
    return grammar_.literal(python_json(value));
  }
  std::vector<ExprId> parts = {grammar_.literal(value.is_array() ? "[" : "{"), space()};
  bool first = true;
  for (const auto& [name, member] : value.items()) {
    if (!std::exchange(first, false)) {
      parts.push_back(comma());
    }
    if (value.is_object()) {
      parts.push_back(grammar_.literal(quoted(name)));
      parts.push_back(colon());
    }
    parts.push_back(literal_value(member));
  }
  if (!first) {
    parts.push_back(space());
  }
  parts.push_back(grammar_.literal(value.is_array() ? "]" : "}"));
  return grammar_.sequence(std::move(parts));
}

bool SchemaWriter::fits(const Json& value, const SchemaShape& shape) {
  switch (value.type()) {
    case Json::value_t::null:
      return shape.types.has(SchemaTypes::kNull);
    case Json::value_t::boolean:
      return shape.types.has(SchemaTypes::kBoolean);
    case Json::value_t::string:
      return shape.types.has(SchemaTypes::kString) && string_fits(value.get<std::string>(), shape);
    case Json::value_t::object:
    case Json::value_t::array:
      if (!shape.objects.empty() || !shape.arrays.empty() || !shape.required.empty() || shape.min_items > 0 ||
          shape.max_items || shape.min_properties > 0 || shape.max_properties) {
        fail_schema(shape.values_path, "objects and arrays are not supported together with keywords about them");
      }
      return shape.types.has(value.is_object() ? SchemaTypes::kObject : SchemaTypes::kArray);
    default:
      break;
  }
  const std::optional<Decimal> number = Decimal::parse(python_json(value));
  if (!number) {
    fail_schema(shape.values_path, "a number with more than 400 digits");
  }
  if (!shape.types.has(number->fraction.empty() ? SchemaTypes::kInteger : SchemaTypes::kFraction)) {
    return false;
  }
  return (!shape.number.min || is_above(*number, *shape.number.min)) &&
         (!shape.number.max || is_below(*number, *shape.number.max));
}

bool SchemaWriter::string_fits(const std::string& text, const SchemaShape& shape) {
  const auto length = static_cast<int>(chars_of(text).size());
  if (length < shape.min_length || length > shape.max_length.value_or(length)) {
    return false;
  }
  SchemaShape unbounded;
  unbounded.patterns = shape.patterns;
  unbounded.format = shape.format;
  if (unbounded.patterns.empty() && !unbounded.format) {
    return true;
  }
  Grammar grammar;
  const Json no_schema;
  SchemaWriter writer(grammar, no_schema);
  grammar.root = grammar.add_rule(shape.values_path);
  grammar.define(grammar.root, writer.patterned_text(unbounded, shape.values_path, TextCoding::kPlain));
  const Automaton automaton = compile_grammar(grammar);
  Matcher matcher(automaton);
  return matcher.accept(text) && matcher.complete();
}

// After the opening quote, the closing one included.
ExprId SchemaWriter::any_string_rest(int min, std::optional<int> max) {
  const auto [place, is_new] = strings_.try_emplace({min, max.value_or(-1)}, RuleId{});
  if (is_new) {
    place->second =
        grammar_.add_loop("string", {.unit = any_string_char(grammar_), .min = min, .max = max, .tail = "\""});
  }
  return grammar_.rule(place->second);
}

ExprId SchemaWriter::string_value(const SchemaShape& shape, const std::string& path) {
  if (shape.max_length && *shape.max_length < shape.min_length) {
    return grammar_.nothing();
  }
  const ExprId quote = grammar_.literal("\"");
  const bool has_format = shape.format && format_pattern(*shape.format);
  if (shape.patterns.empty() && !has_format) {
    return grammar_.sequence({quote, any_string_rest(shape.min_length, shape.max_length)});
  }
  const RuleId rest = grammar_.add_rule("string of " + path);
  grammar_.define(rest, grammar_.sequence({patterned_text(shape, path, TextCoding::kJson), quote}));
  return grammar_.sequence({quote, grammar_.rule(rest)});
}

ExprId SchemaWriter::patterned_text(const SchemaShape& shape, const std::string& path, TextCoding coding) {
  std::vector<ExprId> all;
  for (const auto& [pattern, at] : shape.patterns) {
    try {
      all.push_back(add_regex(grammar_, pattern, RegexMatch::kAnywhere, coding));
    } catch (const Error& error) {
      fail_schema(at, error.what());
    }
  }
  if (const auto pattern = shape.format ? format_pattern(*shape.format) : std::nullopt) {
    all.push_back(add_regex(grammar_, *pattern, RegexMatch::kWhole, coding));
  }
  if (shape.min_length > 0 || shape.max_length) {
    constexpr int kMaxLength = 1000;
    if (std::max(shape.min_length, shape.max_length.value_or(0)) > kMaxLength) {
      fail_schema(path, fmt::format("minLength and maxLength over {} are not supported together with pattern or format",
                                    kMaxLength));
    }
    all.push_back(grammar_.copies(coded_chars(grammar_, CharSet::all(), coding), shape.min_length, shape.max_length));
  }
  return grammar_.intersection(std::move(all));
}

ExprId SchemaWriter::argument_text(const SchemaShape& shape, const std::string& path) {
  if (shape.values) {
    std::vector<ExprId> choices;
    for (const Json* value : *shape.values) {
      if (value->is_string() && fits(*value, shape)) {
        choices.push_back(coded_text(grammar_, value->get<std::string>(), TextCoding::kArgument));
      }
    }
    return grammar_.choice(std::move(choices));
  }
  if (!shape.types.has(SchemaTypes::kString) || (shape.max_length && *shape.max_length < shape.min_length)) {
    return grammar_.nothing();
  }
  if (!shape.patterns.empty() || (shape.format && format_pattern(*shape.format))) {
    return patterned_text(shape, path, TextCoding::kArgument);
  }
  const ExprId any = coded_chars(grammar_, CharSet::all(), TextCoding::kArgument);
  if (shape.min_length == 0 && !shape.max_length) {
    return text_without(grammar_, literal::kDsml);
  }
  return grammar_.repeat(any, shape.min_length, shape.max_length);
}

// Nodes 2k: after k elements; 2k+1: after the comma that follows them. The last one is the end.
ExprId SchemaWriter::array_value(const SchemaShape& shape) {
  size_t n_distinct = static_cast<size_t>(std::max(shape.min_items, 1));
  bool has_prefix = false;
  bool has_items = false;
  for (const SchemaShape::Array& array : shape.arrays) {
    n_distinct = std::max(n_distinct, array.prefix.size());
    has_prefix = has_prefix || !array.prefix.empty();
    has_items = has_items || array.items.has_value();
  }
  bool unlimited = !shape.max_items && (has_items || !has_prefix);
  size_t most = shape.max_items && (has_items || !has_prefix) ? static_cast<size_t>(*shape.max_items) : n_distinct;
  most = std::min(most, static_cast<size_t>(shape.max_items.value_or(static_cast<int>(most))));
  const auto min = static_cast<size_t>(shape.min_items);
  std::vector<Expr::NetworkEdge> edges;
  const auto node = [](size_t n, bool after_comma) { return static_cast<uint32_t>(2 * n + (after_comma ? 1 : 0)); };
  size_t n = 0;
  for (; n < most; ++n) {
    const std::optional<SchemaNodes> item = item_nodes(shape, n);
    if (!item) {
      unlimited = false;
      break;
    }
    if (n > 0) {
      edges.push_back({node(n, false), comma(), node(n, true)});
    }
    edges.push_back({node(n, n > 0), value(*item), node(n + 1, false)});
  }
  if (n < min) {
    return grammar_.nothing();
  }
  if (unlimited && n > 0) {
    if (const std::optional<SchemaNodes> item = item_nodes(shape, n)) {
      edges.push_back({node(n, false), comma(), node(n, true)});
      edges.push_back({node(n, true), value(*item), node(n, false)});
    }
  }
  const uint32_t end = node(n + 1, false);
  for (size_t k = min; k <= n; ++k) {
    edges.push_back({node(k, false), k == 0 ? grammar_.literal("") : space(), end});
  }
  return grammar_.sequence(
      {grammar_.literal("["), space(), grammar_.network(end + 1, std::move(edges)), grammar_.literal("]")});
}

ObjectPlan plan_object(const SchemaShape& shape) {
  ObjectPlan plan;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (!seen.insert(name).second) {
      return;
    }
    plan.names.push_back(name);
    const bool required = std::find(shape.required.begin(), shape.required.end(), name) != shape.required.end();
    if (auto nodes = property_nodes(shape, name)) {
      plan.properties.push_back({name, std::move(*nodes), required});
    } else {
      plan.nothing = plan.nothing || required;
    }
  };
  SchemaNodes others;
  bool others_forbidden = shape.no_unevaluated;
  for (const SchemaShape::Object& object : shape.objects) {
    for (const auto& property : object.properties) {
      add(property.first);
    }
    if (object.additional) {
      others_forbidden = others_forbidden || *object.additional->json == Json(false);
      others.push_back(*object.additional);
    }
  }
  if (!others_forbidden && (!others.empty() || plan.names.empty())) {
    plan.others = std::move(others);
  }
  for (const std::string& name : shape.required) {
    add(name);
  }
  return plan;
}

// For property i: node 3i before it while the object is empty, 3i+1 before it otherwise, 3i+2 there after a comma. The
// last node is the end.
ExprId SchemaWriter::object_value(const SchemaShape& shape) {
  const ObjectPlan plan = plan_object(shape);
  if (plan.nothing) {
    return grammar_.nothing();
  }
  const auto n = static_cast<uint32_t>(plan.properties.size());
  const auto n_required = std::count_if(plan.properties.begin(), plan.properties.end(),
                                        [](const auto& property) { return property.required; });
  if (shape.min_properties > std::max<int64_t>(n_required, 1)) {
    fail_schema(shape.count_path, "more than the required properties (and more than 1) is not supported");
  }
  if (shape.max_properties && (plan.others || n > static_cast<uint32_t>(*shape.max_properties))) {
    fail_schema(shape.count_path, "less than all properties is not supported");
  }
  enum : uint32_t { kEmpty = 0, kAfterValue = 1, kAfterComma = 2 };
  const uint32_t end = 3 * (n + 1);
  const ExprId nothing_more = grammar_.literal("");
  std::vector<Expr::NetworkEdge> edges;
  for (uint32_t i = 0; i <= n; ++i) {
    const uint32_t at = 3 * i;
    const bool has_key = i < n;
    if (has_key || plan.others) {
      edges.push_back({at + kAfterValue, comma(), at + kAfterComma});
    }
    if (has_key) {
      const ObjectPlan::Property& property = plan.properties[i];
      const ExprId member =
          grammar_.sequence({grammar_.literal(quoted(property.name)), colon(), value(property.nodes)});
      edges.push_back({at + kEmpty, member, at + 3 + kAfterValue});
      edges.push_back({at + kAfterComma, member, at + 3 + kAfterValue});
      if (!property.required) {
        edges.push_back({at + kEmpty, nothing_more, at + 3 + kEmpty});
        edges.push_back({at + kAfterComma, nothing_more, at + 3 + kAfterComma});
      }
    } else if (plan.others) {
      const ExprId member = grammar_.sequence({other_key(plan.names), colon(), value(*plan.others)});
      edges.push_back({at + kEmpty, member, at + kAfterValue});
      edges.push_back({at + kAfterComma, member, at + kAfterValue});
    }
  }
  for (uint32_t i = n + 1; i-- > 0;) {
    edges.push_back({3 * i + kAfterValue, space(), end});
    if (i == n && shape.min_properties == 0) {
      edges.push_back({3 * i + kEmpty, nothing_more, end});
    }
    if (i > 0 && plan.properties[i - 1].required) {
      break;
    }
  }
  return grammar_.sequence(
      {grammar_.literal("{"), space(), grammar_.network(end + 1, std::move(edges)), grammar_.literal("}")});
}

// A key of one character or more that is none of the names. Keys have no escapes here, so that none is a name in
// disguise. Along a name, every character may lead away from it.
ExprId SchemaWriter::other_key(const std::vector<std::string>& names) {
  if (!key_rest_) {
    key_rest_ = grammar_.add_loop(
        "key", {.unit = grammar_.chars(raw_string_chars()), .min = 0, .max = kMaxKeyLength - 1, .tail = "\""});
  }
  struct Place {
    std::map<char32_t, uint32_t> next;
    bool is_name = false;
  };
  std::vector<Place> tree(1);
  for (const std::string& name : names) {
    uint32_t at = 0;
    for (const char32_t c : chars_of(name)) {
      const auto [place, is_new] = tree[at].next.try_emplace(c, static_cast<uint32_t>(tree.size()));
      at = place->second;
      if (is_new) {
        tree.emplace_back();
      }
    }
    tree[at].is_name = true;
  }
  const auto end = static_cast<uint32_t>(tree.size());
  std::vector<Expr::NetworkEdge> edges;
  for (uint32_t at = 0; at < end; ++at) {
    CharSet away = raw_string_chars();
    for (const auto& [c, next] : tree[at].next) {
      away = away.without({{c, c}});
      if (raw_string_chars().contains(c)) {
        edges.push_back({at, grammar_.chars({{c, c}}), next});
      }
    }
    edges.push_back({at, grammar_.sequence({grammar_.chars(away), grammar_.rule(*key_rest_)}), end});
    if (at > 0 && !tree[at].is_name) {
      edges.push_back({at, grammar_.literal("\""), end});
    }
  }
  return grammar_.sequence({grammar_.literal("\""), grammar_.network(end + 1, std::move(edges))});
}

}  // namespace fathom
