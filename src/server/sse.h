// Server-sent events as text.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// `data` is one line, as JSON without formatting is.
[[nodiscard]] inline std::string sse_data(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

[[nodiscard]] inline std::string sse_event(std::string_view name, std::string_view data) {
  std::string event = "event: ";
  event += name;
  event += '\n';
  event += sse_data(data);
  return event;
}

// Ignored by clients; keeps the connection, and those who watch it, awake.
inline constexpr std::string_view kSseComment = ": keep-alive\n\n";

}  // namespace fathom
