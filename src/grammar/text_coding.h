// How the characters of a value are written in the text that a model generates: as they are, or inside a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "grammar/char_set.h"
#include "grammar/grammar.h"

namespace fathom {

enum class TextCoding : uint8_t {
  kPlain,
  kJson,      // as json.dumps(ensure_ascii=False) writes it: only quotes, backslashes and controls are escaped
  kArgument,  // a raw DSML parameter: plain, without U+FF5C, which the tags have
};

// One character of a set.
[[nodiscard]] ExprId coded_chars(Grammar& grammar, const CharSet& set, TextCoding coding);

// The same characters, one after the other; nothing() when one of them cannot be written. `text` is UTF-8.
[[nodiscard]] ExprId coded_text(Grammar& grammar, std::string_view text, TextCoding coding);

// Any plain text that does not contain `word`, which is not empty.
[[nodiscard]] ExprId text_without(Grammar& grammar, std::string_view word);

}  // namespace fathom
