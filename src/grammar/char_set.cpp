#include "grammar/char_set.h"

#include <algorithm>
#include <array>

namespace fathom {
namespace {

constexpr char32_t kLast = 0x10ffff;
constexpr CharRange kSurrogates = {0xd800, 0xdfff};

std::vector<uint8_t> encode(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<uint8_t>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    return {static_cast<uint8_t>(c)};
  }
  if (c < 0x800) {
    return {static_cast<uint8_t>(0xc0 | c >> 6), tail(0)};
  }
  if (c < 0x10000) {
    return {static_cast<uint8_t>(0xe0 | c >> 12), tail(6), tail(0)};
  }
  return {static_cast<uint8_t>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

// The range must lie between two neighbouring lengths of encodings. It is cut until in each part all bytes but a common
// prefix and one are free.
void add_range(char32_t first, char32_t last, std::vector<ByteRanges>& out) {
  const size_t n_bytes = encode(first).size();
  for (size_t i = 1; i < n_bytes; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // bits of the last i bytes
    if ((first & ~low) == (last & ~low)) {
      continue;
    }
    if ((first & low) != 0) {
      add_range(first, first | low, out);
      add_range((first | low) + 1, last, out);
      return;
    }
    if ((last & low) != low) {
      add_range(first, (last & ~low) - 1, out);
      add_range(last & ~low, last, out);
      return;
    }
  }
  const std::vector<uint8_t> from = encode(first);
  const std::vector<uint8_t> to = encode(last);
  ByteRanges sequence;
  for (size_t i = 0; i < n_bytes; ++i) {
    sequence.push_back({from[i], to[i]});
  }
  out.push_back(std::move(sequence));
}

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
  for (const CharRange& range : ranges) {
    add(range.first, range.last);
  }
}

void CharSet::add(char32_t first, char32_t last) {
  if (first <= kSurrogates.last && last >= kSurrogates.first) {
    if (first < kSurrogates.first) {
      add(first, kSurrogates.first - 1);
    }
    if (last > kSurrogates.last) {
      add(kSurrogates.last + 1, last);
    }
    return;
  }
  // Everything that the new range touches becomes one range with it.
  auto begin = std::find_if(ranges_.begin(), ranges_.end(), [&](const CharRange& r) { return r.last + 1 >= first; });
  auto end = std::find_if(begin, ranges_.end(), [&](const CharRange& r) { return r.first > last + 1; });
  if (begin != end) {
    first = std::min(first, begin->first);
    last = std::max(last, (end - 1)->last);
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CharSet::add(const CharSet& other) {
  for (const CharRange& range : other.ranges_) {
    add(range.first, range.last);
  }
}

CharSet CharSet::negated() const {
  CharSet result;
  char32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) {
      result.add(next, range.first - 1);
    }
    next = range.last + 1;
  }
  if (next <= kLast) {
    result.add(next, kLast);
  }
  return result;
}

CharSet CharSet::without(const CharSet& other) const { return intersected(other.negated()); }

CharSet CharSet::intersected(const CharSet& other) const {
  CharSet result;
  for (const CharRange& a : ranges_) {
    for (const CharRange& b : other.ranges_) {
      const char32_t first = std::max(a.first, b.first);
      const char32_t last = std::min(a.last, b.last);
      if (first <= last) {
        result.add(first, last);
      }
    }
  }
  return result;
}

bool CharSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const CharRange& range) { return range.first <= c && c <= range.last; });
}

std::vector<ByteRanges> utf8_ranges(const CharSet& set) {
  static constexpr std::array<CharRange, 4> kLengths = {{{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xffff}, {0x10000, kLast}}};
  std::vector<ByteRanges> result;
  for (const CharRange& range : set.ranges()) {
    for (const CharRange& length : kLengths) {
      const char32_t first = std::max(range.first, length.first);
      const char32_t last = std::min(range.last, length.last);
      if (first <= last) {
        add_range(first, last, result);
      }
    }
  }
  return result;
}

}  // namespace fathom
