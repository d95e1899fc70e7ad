// Which JSON types the parameters of the offered tools may have: models label values wrongly now and then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chat/message.h"

namespace fathom {

// A set of JSON types; the empty set means that nothing is known.
enum class JsonTypes : uint8_t {
  kUnknown = 0,
  kString = 1,
  kNumber = 2,  // without kInteger: one with a fraction or an exponent
  kInteger = 4,
  kBoolean = 8,
  kNull = 16,
  kObject = 32,
  kArray = 64,
};

[[nodiscard]] constexpr JsonTypes operator|(JsonTypes a, JsonTypes b) {
  return static_cast<JsonTypes>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
[[nodiscard]] constexpr bool allows(JsonTypes types, JsonTypes type) {
  return (static_cast<uint8_t>(types) & static_cast<uint8_t>(type)) != 0;
}

// The type of the value that `text` is, spaces around it included; nullopt when it is not JSON.
[[nodiscard]] std::optional<JsonTypes> type_of_json(std::string_view text);

// The parameters of one tool.
class ToolSchema {
 public:
  ToolSchema() = default;
  explicit ToolSchema(std::unordered_map<std::string, JsonTypes> parameters) : parameters_(std::move(parameters)) {}

  [[nodiscard]] bool has(const std::string& parameter) const { return parameters_.contains(parameter); }
  [[nodiscard]] JsonTypes types(const std::string& parameter) const {
    const auto found = parameters_.find(parameter);
    return found == parameters_.end() ? JsonTypes::kUnknown : found->second;
  }

 private:
  std::unordered_map<std::string, JsonTypes> parameters_;
};

class ToolSchemas {
 public:
  ToolSchemas() = default;
  explicit ToolSchemas(const std::vector<Tool>& tools);

  [[nodiscard]] bool empty() const { return tools_.empty(); }
  // The schema of a tool, that of no parameters for one that was not offered.
  [[nodiscard]] const ToolSchema& of(const std::string& tool) const;

 private:
  std::unordered_map<std::string, ToolSchema> tools_;
};

}  // namespace fathom
