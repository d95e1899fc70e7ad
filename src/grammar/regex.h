// Regular expressions (those of ECMAScript that describe regular languages) as part of a grammar.
#pragma once

#include <string_view>

#include "grammar/grammar.h"
#include "grammar/text_coding.h"

namespace fathom {

enum class RegexMatch : uint8_t {
  kWhole,     // the text is a match
  kAnywhere,  // the text contains a match: JSON schema's meaning
};

// Adds what `pattern` matches to the grammar. Throws kBadRequest with the position of what is wrong or not supported:
// look-around, back references, \b, \p{...}, and ^ or $ anywhere but at the ends.
[[nodiscard]] ExprId add_regex(Grammar& grammar, std::string_view pattern, RegexMatch match, TextCoding coding);

// The grammar of the texts that are a match.
[[nodiscard]] Grammar regex_grammar(std::string_view pattern);

}  // namespace fathom
