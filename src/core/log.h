// The program's log: lines on stderr, nothing else, so that stdout stays data. Format the text with fmt before the
// call.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fathom {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

// "debug", "info", "warn", "error" or "off".
[[nodiscard]] std::optional<LogLevel> log_level_from_name(std::string_view name) noexcept;

// Sets which lines are written: those of `level` and above. Called by the program, once, before other threads start;
// until then, and in programs that never call it, warnings and errors are written.
void init_logging(LogLevel level);

// Ask before building a text that costs something.
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

// One line each. Safe from any thread.
void log_debug(std::string_view text);
void log_info(std::string_view text);
void log_warn(std::string_view text);
void log_error(std::string_view text);

}  // namespace fathom
