#include "gguf/gguf_value.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "core/check.h"
#include "core/error.h"
#include "core/printable.h"

namespace fathom {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
      return true;
    default:
      return false;
  }
}

bool is_float(GgufType type) { return type == GgufType::kF32 || type == GgufType::kF64; }

// nullopt: a u64 that int64_t cannot hold. Precondition: is_integer(type).
std::optional<int64_t> load_integer(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(from);
    case GgufType::kI8:
      return load<int8_t>(from);
    case GgufType::kU16:
      return load<uint16_t>(from);
    case GgufType::kI16:
      return load<int16_t>(from);
    case GgufType::kU32:
      return load<uint32_t>(from);
    case GgufType::kI32:
      return load<int32_t>(from);
    case GgufType::kI64:
      return load<int64_t>(from);
    default:
      break;
  }
  const auto value = load<uint64_t>(from);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

}  // namespace

std::string_view gguf_type_name(GgufType type) noexcept {
  constexpr std::array<std::string_view, kGgufTypeCount> kNames = {
      "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

size_t gguf_type_bytes(GgufType type) noexcept {
  constexpr std::array<size_t, kGgufTypeCount> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

std::string GgufValue::type_text() const {
  if (is_array()) {
    return fmt::format("array of {} {}", count_, gguf_type_name(element_type_));
  }
  return std::string(gguf_type_name(type_));
}

int64_t GgufValue::to_int(int64_t min, int64_t max) const {
  require_scalar("an integer");
  return int_at(0, min, max);
}

double GgufValue::to_float() const {
  require_scalar("a number");
  return float_at(0);
}

bool GgufValue::to_bool() const {
  if (type_ != GgufType::kBool) {
    fail_type("a bool");
  }
  return load<uint8_t>(bytes_.data()) != 0;
}

std::string_view GgufValue::to_string() const {
  if (type_ != GgufType::kString) {
    fail_type("a string");
  }
  return {reinterpret_cast<const char*>(bytes_.data()) + sizeof(uint64_t), bytes_.size() - sizeof(uint64_t)};
}

std::vector<int64_t> GgufValue::to_ints(int64_t min, int64_t max) const {
  require_array("an array of integers");
  std::vector<int64_t> values(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    values[i] = int_at(i, min, max);
  }
  return values;
}

std::vector<double> GgufValue::to_floats() const {
  require_array("an array of numbers");
  std::vector<double> values(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    values[i] = float_at(i);
  }
  return values;
}

std::vector<std::string_view> GgufValue::to_strings() const {
  if (!is_array() || element_type_ != GgufType::kString) {
    fail_type("an array of strings");
  }
  std::vector<std::string_view> values;
  values.reserve(count_);
  const std::byte* at = bytes_.data();
  for (uint64_t i = 0; i < count_; ++i) {
    const auto length = load<uint64_t>(at);
    at += sizeof(uint64_t);
    values.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
  }
  return values;
}

std::vector<int64_t> GgufValue::to_ints_per_layer(int n_layers, int64_t min, int64_t max) const {
  FATHOM_CHECK(n_layers >= 0, "a count of layers");
  require_layers(n_layers);
  std::vector<int64_t> values(static_cast<size_t>(n_layers));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = int_at(is_array() ? i : 0, min, max);
  }
  return values;
}

std::vector<double> GgufValue::to_floats_per_layer(int n_layers) const {
  FATHOM_CHECK(n_layers >= 0, "a count of layers");
  require_layers(n_layers);
  std::vector<double> values(static_cast<size_t>(n_layers));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = float_at(is_array() ? i : 0);
  }
  return values;
}

int64_t GgufValue::int_at(uint64_t index, int64_t min, int64_t max) const {
  if (!is_integer(element_type_)) {
    fail_type(is_array() ? "an array of integers" : "an integer");
  }
  const std::byte* from = bytes_.data() + index * gguf_type_bytes(element_type_);
  const std::optional<int64_t> value = load_integer(element_type_, from);
  if (value && *value >= min && *value <= max) {
    return *value;
  }
  const std::string text = value ? fmt::format("{}", *value) : fmt::format("{}", load<uint64_t>(from));
  const std::string which = is_array() ? fmt::format(" at index {}", index) : "";
  throw Error(ErrorCode::kBadModel,
              fmt::format("{}: {} is {}{}, expected {} to {}", *file_, printable(key_), text, which, min, max));
}

double GgufValue::float_at(uint64_t index) const {
  if (!is_float(element_type_) && !is_integer(element_type_)) {
    fail_type(is_array() ? "an array of numbers" : "a number");
  }
  const std::byte* from = bytes_.data() + index * gguf_type_bytes(element_type_);
  switch (element_type_) {
    case GgufType::kF32:
      return load<float>(from);
    case GgufType::kF64:
      return load<double>(from);
    case GgufType::kU64:
      return static_cast<double>(load<uint64_t>(from));
    default:
      return static_cast<double>(*load_integer(element_type_, from));
  }
}

void GgufValue::require_scalar(std::string_view expected) const {
  if (is_array()) {
    fail_type(expected);
  }
}

void GgufValue::require_array(std::string_view expected) const {
  if (!is_array()) {
    fail_type(expected);
  }
}

void GgufValue::require_layers(int n_layers) const {
  if (is_array() && count_ < static_cast<uint64_t>(n_layers)) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("{}: {} has {} values, expected one, or one for each of the {} layers", *file_,
                            printable(key_), count_, n_layers));
  }
}

void GgufValue::fail_type(std::string_view expected) const {
  throw Error(ErrorCode::kBadModel,
              fmt::format("{}: {} is {}, expected {}", *file_, printable(key_), type_text(), expected));
}

}  // namespace fathom
