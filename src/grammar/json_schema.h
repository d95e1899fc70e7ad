// Grammars of JSON: of the values of a schema, and of any object.
#pragma once

#include <string_view>

#include "grammar/grammar.h"

namespace fathom {

// The values of a JSON schema (docs/grammar.md says which keywords). Throws kBadRequest for what is no schema, and for
// a keyword that is not supported, with its path.
[[nodiscard]] Grammar json_schema_grammar(std::string_view schema);

// Any JSON object.
[[nodiscard]] Grammar json_object_grammar();

}  // namespace fathom
