// Whether whole texts are in the language of a grammar.
#pragma once

#include <string_view>

#include "grammar/automaton.h"
#include "grammar/matcher.h"

namespace fathom {

// Byte by byte, so that every position is one that a token may end at.
inline bool matches(const Automaton& automaton, std::string_view text) {
  Matcher matcher(automaton);
  for (const char& c : text) {
    if (!matcher.accept(std::string_view(&c, 1))) {
      return false;
    }
  }
  return matcher.complete();
}

inline bool matches(const Grammar& grammar, std::string_view text) { return matches(compile_grammar(grammar), text); }

}  // namespace fathom
