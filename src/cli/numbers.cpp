#include "cli/numbers.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace fathom::cli {
namespace {

[[noreturn]] void reject(std::string_view text) {
  throw Error(ErrorCode::kBadRequest,
              fmt::format("'{}' is not a size: expected a whole number, optionally with K, M, G or T", text));
}

// The power of two that a unit stands for; -1 for an unknown unit.
int unit_shift(std::string_view unit) {
  static constexpr std::string_view kLetters = "kmgt";
  if (unit.empty()) {
    return 0;
  }
  const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(unit[0])));
  const size_t power = kLetters.find(letter);
  const std::string_view rest = unit.substr(1);
  if (power != std::string_view::npos) {
    return rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "ib"
               ? 10 * (static_cast<int>(power) + 1)
               : -1;
  }
  return letter == 'b' && rest.empty() ? 0 : -1;
}

std::string format_scaled(double value, double step, const std::array<std::string_view, 5>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace

uint64_t parse_size(std::string_view text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || !(value >= 0.0)) {
    reject(text);
  }
  std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (unit.starts_with(' ')) {
    unit.remove_prefix(1);
  }
  const int shift = unit_shift(unit);
  if (shift < 0) {
    reject(text);
  }
  const double size = std::ldexp(value, shift);
  // Beyond 2^53 a double no longer tells whole numbers apart.
  if (size != std::floor(size) || size > 0x1p53) {
    reject(text);
  }
  return static_cast<uint64_t>(size);
}

std::string format_bytes(uint64_t bytes) {
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  return format_scaled(static_cast<double>(bytes), 1024.0, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string format_count(uint64_t count) {
  if (count < 1000000) {
    return fmt::format("{}", count);
  }
  return format_scaled(static_cast<double>(count), 1000.0, {"", "K", "M", "B", "T"});
}

}  // namespace fathom::cli
