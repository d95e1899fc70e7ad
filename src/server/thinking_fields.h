// How the APIs ask for thinking (spec/encoding.md 4.2).
#pragma once

#include <optional>
#include <string>

#include "chat/dialect.h"
#include "server/json_fields.h"

namespace fathom {

// `body` may hold "thinking": {"type": "enabled" | "adaptive" | "disabled"}; a budget of tokens is ignored. `effort` is
// the object, if there is one, whose member `key` may be none; minimal, low; medium, high, xhigh; max or ultra.
// "disabled" wins, then the effort; `otherwise` is what a request that says nothing gets, but for "enabled" at least
// kHigh when that is kOff. Throws Error kBadRequest naming the field.
[[nodiscard]] Thinking read_thinking(const JsonFields& body, const std::optional<JsonFields>& effort, const char* key,
                                     Thinking otherwise);

}  // namespace fathom
