#include "tokenizer/unicode.h"

#include <algorithm>
#include <array>

#include "tokenizer/unicode_tables.h"

namespace fathom {
namespace {

CharClass find_class(char32_t c) noexcept {
  const auto& ranges = unicode_tables::kRanges;
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), c,
                                     [](char32_t value, const unicode_tables::Range& r) { return value < r.first; });
  return std::prev(next)->char_class;
}

constexpr size_t kAsciiSize = 0x80;

std::array<CharClass, kAsciiSize> make_ascii_classes() noexcept {
  std::array<CharClass, kAsciiSize> classes{};
  for (char32_t c = 0; c < kAsciiSize; ++c) {
    classes[c] = find_class(c);
  }
  return classes;
}

}  // namespace

CharClass char_class(char32_t c) noexcept {
  static const std::array<CharClass, kAsciiSize> kAscii = make_ascii_classes();
  return c < kAsciiSize ? kAscii[c] : find_class(c);
}

std::string_view unicode_version() noexcept { return unicode_tables::kVersion; }

}  // namespace fathom
