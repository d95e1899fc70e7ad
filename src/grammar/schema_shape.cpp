#include "grammar/schema_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/printable.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxMessageText = 200;
constexpr int kMaxCount = 100'000;
constexpr size_t kMaxRead = 20'000;
constexpr size_t kMaxDepth = 100;  // of schemas that must hold at once

std::string step(const std::string& path, const std::string& name) {
  std::string escaped;
  for (const char c : name) {
    escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return path + "/" + escaped;
}

// Keywords of JSON schema that restrict values in ways that no grammar here follows.
const std::set<std::string>& unsupported_keywords() {
  static const std::set<std::string> keywords = {"multipleOf",
                                                 "not",
                                                 "if",
                                                 "then",
                                                 "else",
                                                 "patternProperties",
                                                 "propertyNames",
                                                 "contains",
                                                 "minContains",
                                                 "maxContains",
                                                 "dependencies",
                                                 "dependentRequired",
                                                 "dependentSchemas",
                                                 "$dynamicRef",
                                                 "$recursiveRef",
                                                 "unevaluatedItems"};
  return keywords;
}

const char* kind_of(const Json& value) { return value.is_binary() ? "a huge number" : value.type_name(); }

[[noreturn]] void fail_type(const std::string& path, const char* expected, const Json& value) {
  fail_schema(path, fmt::format("expected {}, got {}", expected, kind_of(value)));
}

// Schemas are objects or booleans.
SchemaNode child(const Json& schema, std::string path) {
  if (!schema.is_object() && !schema.is_boolean()) {
    fail_type(path, "a schema (an object or a boolean)", schema);
  }
  return {&schema, std::move(path)};
}

SchemaNodes children(const Json& list, const std::string& path) {
  if (!list.is_array() || list.empty()) {
    fail_type(path, "an array of schemas", list);
  }
  SchemaNodes nodes;
  for (size_t i = 0; i < list.size(); ++i) {
    nodes.push_back(child(list[i], step(path, std::to_string(i))));
  }
  return nodes;
}

std::string text_of(const Json& value, const std::string& path) {
  if (!value.is_string()) {
    fail_type(path, "a string", value);
  }
  return value.get<std::string>();
}

int count_of(const Json& value, const std::string& path) {
  // 3.0 counts as 3, as the specification says.
  const bool whole = value.is_number() && std::floor(value.get<double>()) == value.get<double>();
  if (!whole || value.get<double>() < 0) {
    fail_type(path, "a whole number, not negative", value);
  }
  if (value.get<double>() > kMaxCount) {
    fail_schema(path, fmt::format("more than {}", kMaxCount));
  }
  return static_cast<int>(value.get<double>());
}

// A maximum over the limit is no limit that a reply can reach.
std::optional<int> max_count_of(const Json& value, const std::string& path) {
  if (value.is_binary() || (value.is_number() && value.get<double>() > kMaxCount)) {
    return std::nullopt;
  }
  return count_of(value, path);
}

Decimal decimal_of(const Json& value, const std::string& path) {
  if (!value.is_number() && !value.is_binary()) {
    fail_type(path, "a number", value);
  }
  const std::optional<Decimal> decimal = Decimal::parse(python_json(value));
  if (!decimal) {
    fail_schema(path, "a bound with more than 400 digits");
  }
  return *decimal;
}

uint8_t type_bits(const std::string& name, const std::string& path) {
  static const std::unordered_map<std::string, uint8_t> types = {
      {"null", SchemaTypes::kNull},
      {"boolean", SchemaTypes::kBoolean},
      {"object", SchemaTypes::kObject},
      {"array", SchemaTypes::kArray},
      {"string", SchemaTypes::kString},
      {"integer", SchemaTypes::kInteger},
      {"number", SchemaTypes::kInteger | SchemaTypes::kFraction}};
  const auto found = types.find(name);
  if (found == types.end()) {
    fail_schema(path, fmt::format("unknown type '{}'", printable(name)));
  }
  return found->second;
}

uint8_t type_bits(const Json& value, const std::string& path) {
  if (!value.is_array()) {
    return type_bits(text_of(value, path), path);
  }
  uint8_t bits = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    bits |= type_bits(text_of(value[i], step(path, std::to_string(i))), path);
  }
  return bits;
}

void tighten(std::optional<Bound>& bound, const Bound& other, bool is_min) {
  const bool equal = bound && bound->value == other.value;
  if (!bound || (equal && other.exclusive) ||
      (!equal && (is_min ? less(bound->value, other.value) : less(other.value, bound->value)))) {
    bound = other;
  }
}

void tighten(std::optional<int>& max, std::optional<int> other) {
  if (other) {
    max = std::min(max.value_or(*other), *other);
  }
}

bool contains(const std::vector<const Json*>& values, const Json& value) {
  return std::any_of(values.begin(), values.end(), [&](const Json* v) { return *v == value; });
}

void restrict_values(SchemaShape& shape, std::vector<const Json*> values, const std::string& path) {
  if (shape.values) {
    std::erase_if(values, [&](const Json* value) { return !contains(*shape.values, *value); });
  }
  shape.values = std::move(values);
  shape.values_path = path;
}

// Keywords about a value as such, numbers and strings. False: not one of them.
bool add_scalar_keyword(SchemaShape& shape, const std::string& keyword, const Json& value, const std::string& path) {
  if (keyword == "const") {
    restrict_values(shape, {&value}, path);
  } else if (keyword == "enum") {
    if (!value.is_array()) {
      fail_type(path, "an array", value);
    }
    std::vector<const Json*> values;
    for (const Json& element : value) {
      values.push_back(&element);
    }
    restrict_values(shape, std::move(values), path);
  } else if (keyword == "minimum" || keyword == "exclusiveMinimum") {
    tighten(shape.number.min, {decimal_of(value, path), keyword == "exclusiveMinimum"}, true);
  } else if (keyword == "maximum" || keyword == "exclusiveMaximum") {
    tighten(shape.number.max, {decimal_of(value, path), keyword == "exclusiveMaximum"}, false);
  } else if (keyword == "minLength") {
    shape.min_length = std::max(shape.min_length, count_of(value, path));
  } else if (keyword == "maxLength") {
    tighten(shape.max_length, max_count_of(value, path));
  } else if (keyword == "pattern") {
    shape.patterns.emplace_back(text_of(value, path), path);
  } else if (keyword == "format") {
    shape.format = text_of(value, path);
  } else {
    return false;
  }
  return true;
}

// Keywords about the size of arrays and objects, and about names. False: not one of them.
bool add_size_keyword(SchemaShape& shape, const std::string& keyword, const Json& value, const std::string& path) {
  if (keyword == "minItems") {
    shape.min_items = std::max(shape.min_items, count_of(value, path));
  } else if (keyword == "maxItems") {
    tighten(shape.max_items, max_count_of(value, path));
  } else if (keyword == "minProperties") {
    shape.min_properties = std::max(shape.min_properties, count_of(value, path));
    shape.count_path = path;
  } else if (keyword == "maxProperties") {
    tighten(shape.max_properties, max_count_of(value, path));
    shape.count_path = path;
  } else if (keyword == "required") {
    if (!value.is_array()) {
      fail_type(path, "an array of names", value);
    }
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string name = text_of(value[i], step(path, std::to_string(i)));
      if (std::find(shape.required.begin(), shape.required.end(), name) == shape.required.end()) {
        shape.required.push_back(name);
      }
    }
  } else if (keyword == "uniqueItems") {
    if (!value.is_boolean()) {
      fail_type(path, "a boolean", value);
    }
    if (value.get<bool>()) {
      fail_schema(path, "not supported");
    }
  } else if (keyword == "unevaluatedProperties") {
    if (value != Json(false)) {
      fail_schema(path, "supported as false only");
    }
    shape.no_unevaluated = true;
  } else {
    return false;
  }
  return true;
}

// properties and items, with what goes for the others.
void add_containers(SchemaShape& shape, const Json& schema, const std::string& path) {
  if (schema.contains("properties") || schema.contains("additionalProperties")) {
    SchemaShape::Object object;
    if (const auto properties = schema.find("properties"); properties != schema.end()) {
      const std::string at = step(path, "properties");
      if (!properties->is_object()) {
        fail_type(at, "an object", *properties);
      }
      for (const auto& [name, property] : properties->items()) {
        object.properties.emplace_back(name, child(property, step(at, name)));
      }
    }
    if (const auto additional = schema.find("additionalProperties"); additional != schema.end()) {
      object.additional = child(*additional, step(path, "additionalProperties"));
    }
    shape.objects.push_back(std::move(object));
  }
  const auto prefix = schema.find("prefixItems");
  const auto items = schema.find("items");
  const bool tuple = items != schema.end() && items->is_array();  // as prefixItems was called up to 2019
  if (prefix == schema.end() && items == schema.end()) {
    return;
  }
  SchemaShape::Array array;
  if (prefix != schema.end()) {
    array.prefix = children(*prefix, step(path, "prefixItems"));
  } else if (tuple) {
    array.prefix = children(*items, step(path, "items"));
  }
  const char* rest = tuple ? "additionalItems" : "items";
  if (const auto more = schema.find(rest); more != schema.end()) {
    array.items = child(*more, step(path, rest));
  }
  shape.arrays.push_back(std::move(array));
}

uint8_t type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return SchemaTypes::kNull;
    case Json::value_t::boolean:
      return SchemaTypes::kBoolean;
    case Json::value_t::object:
      return SchemaTypes::kObject;
    case Json::value_t::array:
      return SchemaTypes::kArray;
    case Json::value_t::string:
      return SchemaTypes::kString;
    case Json::value_t::number_float:
      return value.get<double>() == std::floor(value.get<double>()) ? SchemaTypes::kInteger : SchemaTypes::kFraction;
    default:
      return SchemaTypes::kInteger;
  }
}

bool ranges_apart(const NumberRange& a, const NumberRange& b) {
  const auto before = [](const NumberRange& low, const NumberRange& high) {
    return low.max && high.min &&
           (less(low.max->value, high.min->value) ||
            (low.max->value == high.min->value && (low.max->exclusive || high.min->exclusive)));
  };
  return before(a, b) || before(b, a);
}

bool requires_property(const SchemaShape& shape, const std::string& name) {
  return std::find(shape.required.begin(), shape.required.end(), name) != shape.required.end();
}

}  // namespace

void fail_schema(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kBadRequest, fmt::format("schema: {}: {}", printable(path, kMaxMessageText), what));
}

const Json& SchemaReader::resolve(const std::string& reference, const std::string& path) const {
  if (!reference.starts_with('#')) {
    fail_schema(
        path, fmt::format("'{}': only references into the schema itself (#/...) are supported", printable(reference)));
  }
  const Json* at = &root_;
  std::string_view rest = std::string_view(reference).substr(1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/', 1), rest.size());
    std::string name;
    for (size_t i = 1; i < end; ++i) {
      const bool escaped = rest[i] == '~' && i + 1 < end && (rest[i + 1] == '0' || rest[i + 1] == '1');
      name += escaped ? (rest[i + 1] == '0' ? '~' : '/') : rest[i];
      i += static_cast<size_t>(escaped);
    }
    const bool is_index = !name.empty() && name.size() < 7 && name.find_first_not_of("0123456789") == std::string::npos;
    if (rest[0] == '/' && at->is_object() && at->contains(name)) {
      at = &at->at(name);
    } else if (rest[0] == '/' && at->is_array() && is_index && std::stoul(name) < at->size()) {
      at = &at->at(std::stoul(name));
    } else {
      fail_schema(path, fmt::format("'{}' is not in the schema", printable(reference)));
    }
    rest = rest.substr(end);
  }
  return *at;
}

void SchemaReader::add_reference(SchemaShape& shape, const SchemaNode& node, std::vector<const void*>& path) const {
  const std::string at = step(node.path, "$ref");
  const std::string reference = text_of(node.json->at("$ref"), at);
  const SchemaNode target = child(resolve(reference, at), reference);
  if (std::find(path.begin(), path.end(), target.json) != path.end()) {
    fail_schema(at, fmt::format("'{}' refers to itself", printable(reference)));
  }
  add(shape, target, path);
}

void SchemaReader::add_choice(SchemaShape& shape, const SchemaNode& node, const char* keyword,
                              const std::vector<const void*>& path) const {
  const auto list = node.json->find(keyword);
  if (list == node.json->end()) {
    return;
  }
  const SchemaNodes branches = children(*list, step(node.path, keyword));
  if (std::string_view(keyword) == "oneOf") {
    for (size_t i = 0; i < branches.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!disjoint({branches[j]}, {branches[i]})) {
          fail_schema(
              step(node.path, keyword),
              fmt::format("a value may match both {} and {}; make them disjoint (different types, or a required "
                          "property with different constants) or use anyOf",
                          j, i));
        }
      }
    }
  }
  shape.choices.push_back({branches, path});
}

void SchemaReader::add(SchemaShape& shape, const SchemaNode& node, std::vector<const void*>& path) const {
  const Json& schema = *node.json;
  if (++n_read_ > kMaxRead) {
    fail_schema("#", fmt::format("too large: more than {} schemas and combinations of them", kMaxRead));
  }
  if (!shape.seen.insert(&schema).second) {
    return;
  }
  if (schema.is_boolean()) {
    shape.nothing = shape.nothing || !schema.get<bool>();
    return;
  }
  if (path.size() == kMaxDepth) {
    fail_schema(node.path, fmt::format("references nested deeper than {}", kMaxDepth));
  }
  path.push_back(&schema);
  for (const auto& [keyword, value] : schema.items()) {
    const std::string at = step(node.path, keyword);
    if (unsupported_keywords().contains(keyword)) {
      // {"multipleOf": 1} says integer.
      if (keyword == "multipleOf" && value.is_number() && value.get<double>() == 1.0) {
        shape.types.bits &= static_cast<uint8_t>(~SchemaTypes::kFraction);
        continue;
      }
      fail_schema(at, "not supported");
    }
    if (keyword == "type") {
      uint8_t bits = type_bits(value, at);
      if (const auto nullable = schema.find("nullable"); nullable != schema.end() && *nullable == Json(true)) {
        bits |= SchemaTypes::kNull;
      }
      shape.types.bits &= bits;
    } else if (!add_scalar_keyword(shape, keyword, value, at)) {
      static_cast<void>(add_size_keyword(shape, keyword, value, at));
    }
  }
  add_containers(shape, schema, node.path);
  if (schema.contains("$ref")) {
    add_reference(shape, node, path);
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    for (const SchemaNode& part : children(*all, step(node.path, "allOf"))) {
      add(shape, part, path);
    }
  }
  add_choice(shape, node, "anyOf", path);
  add_choice(shape, node, "oneOf", path);
  path.pop_back();
}

SchemaShape SchemaReader::read(const SchemaNodes& nodes) const {
  SchemaShape shape;
  for (const SchemaNode& node : nodes) {
    std::vector<const void*> path;
    add(shape, node, path);
  }
  return shape;
}

SchemaShape SchemaReader::with(SchemaShape shape, const SchemaNode& branch, const SchemaShape::Choice& choice) const {
  std::vector<const void*> path = choice.path;
  // Inside its own choice a schema adds nothing but itself again.
  if (std::find(path.begin(), path.end(), branch.json) != path.end()) {
    fail_schema(branch.path, "refers to itself");
  }
  add(shape, branch, path);
  return shape;
}

bool SchemaReader::disjoint(const SchemaNodes& a, const SchemaNodes& b, int depth) const {
  constexpr int kMaxSteps = 4;  // into properties and branches
  const SchemaShape x = read(a);
  const SchemaShape y = read(b);
  if (x.nothing || y.nothing) {
    return true;
  }
  // A choice is disjoint from something if all of its branches are.
  const auto all_apart = [&](const SchemaShape& shape, const SchemaNodes& other) {
    return depth < kMaxSteps && std::any_of(shape.choices.begin(), shape.choices.end(), [&](const auto& choice) {
             return std::all_of(choice.branches.begin(), choice.branches.end(),
                                [&](const SchemaNode& node) { return disjoint({node}, other, depth + 1); });
           });
  };
  if (all_apart(x, b) || all_apart(y, a)) {
    return true;
  }
  if (x.values && y.values) {
    return std::none_of(x.values->begin(), x.values->end(), [&](const Json* v) { return contains(*y.values, *v); });
  }
  const auto no_value_fits = [](const SchemaShape& shape, const SchemaShape& other) {
    return shape.values && std::none_of(shape.values->begin(), shape.values->end(),
                                        [&](const Json* value) { return other.types.has(type_of(*value)); });
  };
  if (no_value_fits(x, y) || no_value_fits(y, x)) {
    return true;
  }
  const uint8_t common = x.types.bits & y.types.bits;
  if ((common & ~(SchemaTypes::kInteger | SchemaTypes::kFraction | SchemaTypes::kObject)) != 0 ||
      ((common & (SchemaTypes::kInteger | SchemaTypes::kFraction)) != 0 && !ranges_apart(x.number, y.number))) {
    return false;
  }
  if ((common & SchemaTypes::kObject) == 0) {
    return true;
  }
  const auto told_apart = [&](const SchemaShape& shape, const SchemaShape& other) {
    return std::any_of(shape.required.begin(), shape.required.end(), [&](const std::string& name) {
      const std::optional<SchemaNodes> mine = property_nodes(shape, name);
      const std::optional<SchemaNodes> theirs = property_nodes(other, name);
      return !mine || !theirs ||
             (depth < kMaxSteps && requires_property(other, name) && disjoint(*mine, *theirs, depth + 1));
    });
  };
  return told_apart(x, y) || told_apart(y, x);
}

std::optional<SchemaNodes> property_nodes(const SchemaShape& shape, const std::string& name) {
  SchemaNodes nodes;
  for (const SchemaShape::Object& object : shape.objects) {
    const auto found = std::find_if(object.properties.begin(), object.properties.end(),
                                    [&](const auto& property) { return property.first == name; });
    if (found != object.properties.end()) {
      nodes.push_back(found->second);
    } else if (object.additional) {
      nodes.push_back(*object.additional);
    }
  }
  const bool forbidden = std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return *n.json == Json(false); });
  return forbidden ? std::nullopt : std::optional(nodes);
}

std::optional<SchemaNodes> item_nodes(const SchemaShape& shape, size_t index) {
  SchemaNodes nodes;
  for (const SchemaShape::Array& array : shape.arrays) {
    if (index < array.prefix.size()) {
      nodes.push_back(array.prefix[index]);
    } else if (array.items) {
      nodes.push_back(*array.items);
    }
  }
  const bool forbidden = std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return *n.json == Json(false); });
  return forbidden ? std::nullopt : std::optional(nodes);
}

}  // namespace fathom
