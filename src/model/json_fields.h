// Checked access to the fields of one JSON object of a config. Private to model/. A value of null counts as absent, as
// the configs' writers mean it. Every error names file, key, value and what was expected.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_fields.h"

namespace fathom {

class JsonFields {
 public:
  // `prefix` goes before the keys in messages ("rope_scaling.").
  JsonFields(const nlohmann::json& object, const std::string& file, std::string prefix = {});

  [[nodiscard]] const std::string& file() const { return file_; }

  [[nodiscard]] bool has(const JsonKeys& keys) const;
  // Throws kBadModel when absent, of another type or out of range. Two spellings in one file must agree.
  [[nodiscard]] int integer(const JsonKeys& keys, int min, int max) const;
  [[nodiscard]] float positive(const JsonKeys& keys) const;
  [[nodiscard]] float number(const JsonKeys& keys) const;  // any finite one
  [[nodiscard]] std::string text(const JsonKeys& keys) const;
  // At least `n` elements; all are checked, the first `n` returned.
  [[nodiscard]] std::vector<int> integers(const JsonKeys& keys, int n, int min, int max) const;
  [[nodiscard]] std::vector<std::string> texts(const JsonKeys& keys, int n) const;
  [[nodiscard]] JsonFields object(const char* key) const;

  // An absent value passes: the official default is the expected one. Throws kUnsupported.
  void require_bool(const char* key, bool expected) const;
  void require_integer(const char* key, int expected) const;
  void require_number(const char* key, float expected) const;
  void require_text(const JsonKeys& keys, std::string_view expected) const;

 private:
  struct Field {
    std::string key;
    const nlohmann::json* value;
  };

  [[nodiscard]] std::optional<Field> find(const JsonKeys& keys) const;
  [[nodiscard]] Field at(const JsonKeys& keys) const;
  [[nodiscard]] Field array(const JsonKeys& keys, int n) const;
  [[nodiscard]] int to_int(const Field& field, int min, int max) const;
  [[nodiscard]] double to_number(const Field& field) const;
  [[noreturn]] void fail(const Field& field, const std::string& expected) const;
  [[noreturn]] void unsupported(const Field& field, const std::string& expected) const;

  const nlohmann::json& object_;
  const std::string& file_;
  std::string prefix_;
};

}  // namespace fathom
