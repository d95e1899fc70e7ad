// The generated data behind unicode.h (tools/generate_unicode_tables.cpp writes unicode_tables.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tokenizer/unicode.h"

namespace fathom::unicode_tables {

// Code points from `first` up to the next range's.
struct Range {
  char32_t first;
  CharClass char_class;
};

extern const std::string_view kVersion;
extern const std::span<const Range> kRanges;  // ascending, the first starts at 0

}  // namespace fathom::unicode_tables
