// Grammars as text, in llama.cpp's GBNF notation.
#pragma once

#include <string_view>

#include "grammar/grammar.h"

namespace fathom {

//   root ::= "yes" | "no" ("," ws [a-z]+){0,3}   # rules may span lines inside (...) and after or before |
//   ws   ::= [ \t]*
// Throws kBadRequest with the line of what is wrong; there must be a rule `root`.
[[nodiscard]] Grammar parse_gbnf(std::string_view text);

}  // namespace fathom
