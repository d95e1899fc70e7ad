// How much a client wants the model to think, in the words of every API, as the one setting that prompts have.
#pragma once

#include <optional>

#include "chat/dialect.h"
#include "server/request_fields.h"

namespace fathom {

// What a request may say; unset where it says nothing.
struct ThinkingControls {
  std::optional<bool> on;
  std::optional<Thinking> effort;
};

// Member `key`: none; minimal, low; medium, high, xhigh; max or ultra. Throws Error kBadRequest.
[[nodiscard]] std::optional<Thinking> read_effort(const RequestFields& fields, const char* key);

// "thinking": {"type": "enabled" | "disabled" | "adaptive"}; a budget of tokens is ignored. Throws Error kBadRequest.
[[nodiscard]] std::optional<bool> read_thinking_switch(const RequestFields& request);

// One setting from what was said and what holds otherwise: an effort alone decides; switched on without one, a default
// that is off becomes high.
[[nodiscard]] Thinking resolve_thinking(const ThinkingControls& controls, Thinking otherwise);

// For APIs with no more than "thinking" and an effort. `effort` is the object, if there is one, whose member `key` may
// be an effort. Throws Error kBadRequest naming the field.
[[nodiscard]] Thinking read_thinking(const RequestFields& request, const std::optional<RequestFields>& effort,
                                     const char* key, Thinking otherwise);

}  // namespace fathom
