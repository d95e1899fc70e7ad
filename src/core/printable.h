// Text from a file, made safe for a message: a hostile name must not drive the terminal or flood a log.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Bytes outside printable ASCII become \xNN, a backslash is doubled; at most `max_bytes` of `text`, then "...".
[[nodiscard]] std::string printable(std::string_view text, size_t max_bytes = 96);

}  // namespace fathom
