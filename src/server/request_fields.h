// The members of a JSON object that a client sent, read with checks: unknown ones are ignored, null counts as missing,
// and a wrong type is an error that names the field.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Refers to the object, which outlives it. Everything throws Error kBadRequest: "top_p: expected a number, got "high"".
class RequestFields {
 public:
  // `path`: where the object stands in the request; empty for the request itself.
  explicit RequestFields(const nlohmann::ordered_json& object, std::string path = {});

  // The member, or nullptr where it is missing or null.
  [[nodiscard]] const nlohmann::ordered_json* find(const char* key) const;
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }
  // "path.key".
  [[nodiscard]] std::string path(std::string_view key) const;
  [[noreturn]] void fail(const char* key, std::string_view expected) const;

  [[nodiscard]] std::optional<std::string> text(const char* key) const;
  [[nodiscard]] std::optional<bool> flag(const char* key) const;
  [[nodiscard]] std::optional<double> number(const char* key) const;
  // Also 3.0; a number out of range is named with the range.
  [[nodiscard]] std::optional<int64_t> integer(const char* key, int64_t min = std::numeric_limits<int64_t>::min(),
                                               int64_t max = std::numeric_limits<int64_t>::max()) const;
  [[nodiscard]] std::optional<RequestFields> object(const char* key) const;
  [[nodiscard]] const nlohmann::ordered_json* array(const char* key) const;  // nullptr: missing
  // One string, or an array of strings.
  [[nodiscard]] std::vector<std::string> texts(const char* key) const;
  [[nodiscard]] const nlohmann::ordered_json& json() const { return *object_; }

 private:
  const nlohmann::ordered_json* object_;
  std::string path_;
};

// The body of a request. Throws Error kBadRequest for what is no JSON object.
[[nodiscard]] nlohmann::ordered_json parse_body(std::string_view body);

}  // namespace fathom
