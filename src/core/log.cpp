#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <utility>

namespace fathom {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// Not in spdlog's registry, whose default logger writes to stdout.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger created("fathom", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created.set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    created.set_level(spdlog::level::warn);
    return created;
  }();
  return instance;
}

void write(spdlog::level::level_enum level, std::string_view text) {
  logger().log(level, spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace

std::optional<LogLevel> log_level_from_name(std::string_view name) noexcept {
  constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels = {{{"debug", LogLevel::kDebug},
                                                                             {"info", LogLevel::kInfo},
                                                                             {"warn", LogLevel::kWarn},
                                                                             {"error", LogLevel::kError},
                                                                             {"off", LogLevel::kOff}}};
  for (const auto& [level_name, level] : kLevels) {
    if (level_name == name) {
      return level;
    }
  }
  return std::nullopt;
}

void init_logging(LogLevel level) { logger().set_level(spdlog_level(level)); }

bool log_enabled(LogLevel level) noexcept {
  return level != LogLevel::kOff && logger().should_log(spdlog_level(level));
}

void log_debug(std::string_view text) { write(spdlog::level::debug, text); }
void log_info(std::string_view text) { write(spdlog::level::info, text); }
void log_warn(std::string_view text) { write(spdlog::level::warn, text); }
void log_error(std::string_view text) { write(spdlog::level::err, text); }

}  // namespace fathom
