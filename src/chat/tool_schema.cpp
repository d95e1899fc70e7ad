#include "chat/tool_schema.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/ordered_json.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

JsonTypes type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string:
      return JsonTypes::kString;
    case Json::value_t::number_float:
      return JsonTypes::kNumber;
    case Json::value_t::boolean:
      return JsonTypes::kBoolean;
    case Json::value_t::null:
      return JsonTypes::kNull;
    case Json::value_t::object:
      return JsonTypes::kObject;
    case Json::value_t::array:
      return JsonTypes::kArray;
    default:
      return JsonTypes::kInteger;
  }
}

JsonTypes named_type(const Json& name) {
  static const std::unordered_map<std::string, JsonTypes> names = {
      {"string", JsonTypes::kString},   {"number", JsonTypes::kNumber | JsonTypes::kInteger},
      {"integer", JsonTypes::kInteger}, {"boolean", JsonTypes::kBoolean},
      {"null", JsonTypes::kNull},       {"object", JsonTypes::kObject},
      {"array", JsonTypes::kArray},
  };
  const auto found = name.is_string() ? names.find(name.get<std::string>()) : names.end();
  return found == names.end() ? JsonTypes::kUnknown : found->second;
}

// The types of all elements together; nothing is known when nothing is known of one.
template <class Function>
JsonTypes any_of(const Json& list, Function types_of) {
  JsonTypes all = JsonTypes::kUnknown;
  for (const Json& element : list) {
    const JsonTypes types = types_of(element);
    if (types == JsonTypes::kUnknown) {
      return types;
    }
    all = all | types;
  }
  return all;
}

JsonTypes types_of_schema(const Json& schema) {
  if (!schema.is_object()) {
    return JsonTypes::kUnknown;
  }
  if (const auto type = schema.find("type"); type != schema.end()) {
    return type->is_array() ? any_of(*type, named_type) : named_type(*type);
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    return any_of(*values, type_of);
  }
  if (const auto value = schema.find("const"); value != schema.end()) {
    return type_of(*value);
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const auto choices = schema.find(key); choices != schema.end() && choices->is_array()) {
      return any_of(*choices, types_of_schema);
    }
  }
  return JsonTypes::kUnknown;
}

ToolSchema read_schema(const Tool& tool) {
  std::unordered_map<std::string, JsonTypes> parameters;
  const auto definition = parse_ordered_json(tool.definition);
  const Json* schema = definition ? &*definition : nullptr;
  for (const char* key : {"parameters", "properties"}) {
    if (schema == nullptr || !schema->is_object() || !schema->contains(key)) {
      return {};
    }
    schema = &schema->at(key);
  }
  if (schema->is_object()) {
    for (const auto& [name, parameter] : schema->items()) {
      parameters.emplace(name, types_of_schema(parameter));
    }
  }
  return ToolSchema(std::move(parameters));
}

}  // namespace

std::optional<JsonTypes> type_of_json(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  // A NUL would end the text for accept().
  if (begin == std::string_view::npos || text.find('\0') != std::string_view::npos || !Json::accept(text)) {
    return std::nullopt;
  }
  switch (text[begin]) {
    case '{':
      return JsonTypes::kObject;
    case '[':
      return JsonTypes::kArray;
    case '"':
      return JsonTypes::kString;
    case 't':
    case 'f':
      return JsonTypes::kBoolean;
    case 'n':
      return JsonTypes::kNull;
    default:
      return text.find_first_of(".eE") == std::string_view::npos ? JsonTypes::kInteger : JsonTypes::kNumber;
  }
}

ToolSchemas::ToolSchemas(const std::vector<Tool>& tools) {
  for (const Tool& tool : tools) {
    tools_.emplace(tool.name, read_schema(tool));
  }
}

const ToolSchema& ToolSchemas::of(const std::string& tool) const {
  static const ToolSchema none;
  const auto found = tools_.find(tool);
  return found == tools_.end() ? none : found->second;
}

}  // namespace fathom
