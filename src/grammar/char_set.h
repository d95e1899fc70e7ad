// Sets of Unicode characters (scalar values: no surrogates), and their UTF-8 as ranges of bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace fathom {

struct CharRange {
  char32_t first = 0;
  char32_t last = 0;  // included

  friend bool operator==(const CharRange&, const CharRange&) = default;
};

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  [[nodiscard]] static CharSet all() { return CharSet().negated(); }

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  [[nodiscard]] CharSet negated() const;
  [[nodiscard]] CharSet without(const CharSet& other) const;
  [[nodiscard]] CharSet intersected(const CharSet& other) const;
  [[nodiscard]] bool contains(char32_t c) const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  // Sorted, apart from each other, without surrogates.
  [[nodiscard]] const std::vector<CharRange>& ranges() const { return ranges_; }

 private:
  std::vector<CharRange> ranges_;
};

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;  // included
};

// Byte strings of one length: any byte of the first range, then any of the second, ...
using ByteRanges = std::vector<ByteRange>;

// The UTF-8 encodings of a set, every one in exactly one of the results.
[[nodiscard]] std::vector<ByteRanges> utf8_ranges(const CharSet& set);

}  // namespace fathom
