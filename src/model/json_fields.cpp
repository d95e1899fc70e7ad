#include "model/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "model/config_check.h"

namespace fathom {
namespace {

constexpr size_t kMaxValueBytes = 60;

std::string value_text(const nlohmann::json& value) { return printable(value.dump(), kMaxValueBytes); }

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, const std::string& file, std::string prefix)
    : object_(object), file_(file), prefix_(std::move(prefix)) {}

bool JsonFields::has(const JsonKeys& keys) const { return find(keys).has_value(); }

int JsonFields::integer(const JsonKeys& keys, int min, int max) const { return to_int(at(keys), min, max); }

float JsonFields::positive(const JsonKeys& keys) const {
  const Field field = at(keys);
  return checked_positive(to_number(field), file_, field.key);
}

float JsonFields::number(const JsonKeys& keys) const { return static_cast<float>(to_number(at(keys))); }

std::string JsonFields::text(const JsonKeys& keys) const {
  const Field field = at(keys);
  if (!field.value->is_string()) {
    fail(field, "a string");
  }
  return field.value->get<std::string>();
}

std::vector<int> JsonFields::integers(const JsonKeys& keys, int n, int min, int max) const {
  const Field field = array(keys, n);
  std::vector<int> values;
  for (const auto& element : *field.value) {
    values.push_back(to_int({fmt::format("{}[{}]", field.key, values.size()), &element}, min, max));
  }
  values.resize(static_cast<size_t>(n));
  return values;
}

std::vector<std::string> JsonFields::texts(const JsonKeys& keys, int n) const {
  const Field field = array(keys, n);
  std::vector<std::string> values;
  for (const auto& element : *field.value) {
    if (!element.is_string()) {
      fail({fmt::format("{}[{}]", field.key, values.size()), &element}, "a string");
    }
    values.push_back(element.get<std::string>());
  }
  values.resize(static_cast<size_t>(n));
  return values;
}

JsonFields JsonFields::object(const char* key) const {
  const Field field = at({key});
  if (!field.value->is_object()) {
    fail(field, "an object");
  }
  return {*field.value, file_, field.key + "."};
}

void JsonFields::require_bool(const char* key, bool expected) const {
  const std::optional<Field> field = find({key});
  if (field && *field->value != nlohmann::json(expected)) {
    unsupported(*field, expected ? "true" : "false");
  }
}

void JsonFields::require_integer(const char* key, int expected) const {
  const std::optional<Field> field = find({key});
  if (field && *field->value != nlohmann::json(expected)) {
    unsupported(*field, fmt::format("{}", expected));
  }
}

void JsonFields::require_number(const char* key, float expected) const {
  const std::optional<Field> field = find({key});
  if (field && static_cast<float>(to_number(*field)) != expected) {
    unsupported(*field, fmt::format("{}", expected));
  }
}

void JsonFields::require_text(const JsonKeys& keys, std::string_view expected) const {
  const std::optional<Field> field = find(keys);
  if (field && *field->value != nlohmann::json(expected)) {
    unsupported(*field, fmt::format("\"{}\"", expected));
  }
}

std::optional<JsonFields::Field> JsonFields::find(const JsonKeys& keys) const {
  std::optional<Field> found;
  for (const char* key : keys) {
    if (key == nullptr) {
      continue;
    }
    const auto value = object_.find(key);
    if (value == object_.end() || value->is_null()) {
      continue;
    }
    const Field field{prefix_ + key, &*value};
    if (found && *found->value != *field.value) {
      fail(field, fmt::format("{} as in {}", value_text(*found->value), found->key));
    }
    found = found ? found : field;
  }
  return found;
}

JsonFields::Field JsonFields::at(const JsonKeys& keys) const {
  std::optional<Field> field = find(keys);
  if (!field) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: {}{} is missing", file_, prefix_, keys[0]));
  }
  return *std::move(field);
}

JsonFields::Field JsonFields::array(const JsonKeys& keys, int n) const {
  Field field = at(keys);
  if (!field.value->is_array()) {
    fail(field, "an array");
  }
  if (field.value->size() < static_cast<size_t>(n)) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: {} has {} elements, expected one for each of the {} layers",
                                                  file_, field.key, field.value->size(), n));
  }
  return field;
}

int JsonFields::to_int(const Field& field, int min, int max) const {
  const auto& value = *field.value;
  // Unsigned beyond int64_t would wrap in get<int64_t>.
  const bool is_big = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(max);
  if (!value.is_number_integer() || is_big || value.get<int64_t>() < min || value.get<int64_t>() > max) {
    fail(field, fmt::format("an integer from {} to {}", min, max));
  }
  return static_cast<int>(value.get<int64_t>());
}

double JsonFields::to_number(const Field& field) const {
  if (!field.value->is_number() || !std::isfinite(field.value->get<float>())) {
    fail(field, "a number");
  }
  return field.value->get<double>();
}

void JsonFields::fail(const Field& field, const std::string& expected) const {
  throw Error(ErrorCode::kBadModel,
              fmt::format("{}: {} is {}, expected {}", file_, field.key, value_text(*field.value), expected));
}

void JsonFields::unsupported(const Field& field, const std::string& expected) const {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: {} is {}, expected {}", file_, field.key, value_text(*field.value), expected));
}

}  // namespace fathom
