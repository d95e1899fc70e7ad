// The formats of JSON schema that a regular expression can describe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// A pattern whose whole matches have the format; a subset where the format is wider than anybody writes. nullopt: not
// one that is enforced.
[[nodiscard]] std::optional<std::string> format_pattern(std::string_view format);

}  // namespace fathom
