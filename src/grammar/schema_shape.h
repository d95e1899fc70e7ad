// What a JSON schema demands of a value, collected from its keywords, from what it refers to and from all of allOf.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_number.h"

namespace fathom {

// A schema inside the whole one. `path` is where it is ("#/properties/a"), for messages.
struct SchemaNode {
  const nlohmann::ordered_json* json = nullptr;
  std::string path;
};

// Schemas that must all hold.
using SchemaNodes = std::vector<SchemaNode>;

// A set of JSON types. "number" is kInteger and kFraction.
struct SchemaTypes {
  static constexpr uint8_t kNull = 1, kBoolean = 2, kObject = 4, kArray = 8, kString = 16, kInteger = 32,
                           kFraction = 64, kAll = 127;
  uint8_t bits = kAll;

  [[nodiscard]] bool has(uint8_t type) const { return (bits & type) != 0; }
};

struct SchemaShape {
  // The object keywords of one schema.
  struct Object {
    std::vector<std::pair<std::string, SchemaNode>> properties;
    std::optional<SchemaNode> additional;
  };
  struct Array {
    SchemaNodes prefix;
    std::optional<SchemaNode> items;
  };
  // One anyOf or oneOf.
  struct Choice {
    SchemaNodes branches;
    std::vector<const void*> path;  // the schemas it is inside of
  };

  bool nothing = false;  // no value at all
  SchemaTypes types;
  std::optional<std::vector<const nlohmann::ordered_json*>> values;  // enum, const
  std::string values_path;

  NumberRange number;

  int min_length = 0;
  std::optional<int> max_length;
  std::vector<std::pair<std::string, std::string>> patterns;  // with their paths
  std::optional<std::string> format;

  std::vector<Array> arrays;
  int min_items = 0;
  std::optional<int> max_items;

  std::vector<Object> objects;
  std::vector<std::string> required;
  bool no_unevaluated = false;
  int min_properties = 0;
  std::optional<int> max_properties;
  std::string count_path;  // of minProperties or maxProperties

  std::vector<Choice> choices;
  std::set<const void*> seen;
};

class SchemaReader {
 public:
  explicit SchemaReader(const nlohmann::ordered_json& root) : root_(root) {}

  // Throws kBadRequest naming the keyword and its path for what is not supported or makes no sense.
  [[nodiscard]] SchemaShape read(const SchemaNodes& nodes) const;
  // The shape with one more schema to hold: a branch of `choice`.
  [[nodiscard]] SchemaShape with(SchemaShape shape, const SchemaNode& branch, const SchemaShape::Choice& choice) const;
  // Whether it is certain that no value satisfies both.
  [[nodiscard]] bool disjoint(const SchemaNodes& a, const SchemaNodes& b, int depth = 0) const;

 private:
  void add(SchemaShape& shape, const SchemaNode& node, std::vector<const void*>& path) const;
  void add_reference(SchemaShape& shape, const SchemaNode& node, std::vector<const void*>& path) const;
  void add_choice(SchemaShape& shape, const SchemaNode& node, const char* keyword,
                  const std::vector<const void*>& path) const;
  [[nodiscard]] const nlohmann::ordered_json& resolve(const std::string& reference, const std::string& path) const;

  const nlohmann::ordered_json& root_;
  mutable size_t n_read_ = 0;
};

// Schemas of property `name` in all objects of a shape; nullopt when one of them forbids it.
[[nodiscard]] std::optional<SchemaNodes> property_nodes(const SchemaShape& shape, const std::string& name);

// Of an element; nullopt when there can be none.
[[nodiscard]] std::optional<SchemaNodes> item_nodes(const SchemaShape& shape, size_t index);

[[noreturn]] void fail_schema(const std::string& path, const std::string& what);

}  // namespace fathom
