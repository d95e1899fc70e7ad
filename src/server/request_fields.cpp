#include "server/request_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail_at(const std::string& path, std::string_view expected, const Json* got) {
  throw Error(ErrorCode::kBadRequest, fmt::format("{}: expected {}, got {}", path, expected,
                                                  got == nullptr ? "nothing" : printable(python_json(*got))));
}

}  // namespace

RequestFields::RequestFields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) {
    fail_at(path_.empty() ? "body" : path_, "an object", &object);
  }
}

const Json* RequestFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string RequestFields::path(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void RequestFields::fail(const char* key, std::string_view expected) const { fail_at(path(key), expected, find(key)); }

std::optional<std::string> RequestFields::text(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    fail(key, "a string");
  }
  return value->get<std::string>();
}

std::optional<bool> RequestFields::flag(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    fail(key, "true or false");
  }
  return value->get<bool>();
}

std::optional<double> RequestFields::number(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    fail(key, "a number");
  }
  return value->get<double>();
}

std::optional<int64_t> RequestFields::integer(const char* key, int64_t min, int64_t max) const {
  const std::optional<double> value = number(key);
  if (!value) {
    return std::nullopt;
  }
  // Doubles from here on are not exact, and no field needs them.
  constexpr double kExact = 9007199254740992.0;
  const Json& json = *find(key);
  if (json.is_number_float() && (std::floor(*value) != *value || std::abs(*value) > kExact)) {
    fail(key, "an integer");
  }
  const bool above = json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t integer = json.is_number_float() ? static_cast<int64_t>(*value) : json.get<int64_t>();
  if (above || integer < min || integer > max) {
    fail(key, max == INT64_MAX ? fmt::format("an integer of at least {}", min)
                               : fmt::format("an integer from {} to {}", min, max));
  }
  return integer;
}

std::optional<RequestFields> RequestFields::object(const char* key) const {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : std::optional<RequestFields>(std::in_place, *value, path(key));
}

const Json* RequestFields::array(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) {
    fail(key, "an array");
  }
  return value;
}

std::vector<std::string> RequestFields::texts(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return {};
  }
  if (value->is_string()) {
    return {value->get<std::string>()};
  }
  if (!value->is_array()) {
    fail(key, "a string or an array of strings");
  }
  std::vector<std::string> texts;
  for (const Json& element : *value) {
    if (!element.is_string()) {
      fail_at(fmt::format("{}[{}]", path(key), texts.size()), "a string", &element);
    }
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

Json parse_body(std::string_view body) {
  if (!is_valid_utf8(body)) {
    throw Error(ErrorCode::kBadRequest, "body: not valid UTF-8");
  }
  Json json = parse_ordered_json(body, "body");
  static_cast<void>(RequestFields(json));
  return json;
}

}  // namespace fathom
