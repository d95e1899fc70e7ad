#include "grammar/char_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/utf8.h"

namespace fathom {
namespace {

bool has_encoding(const std::vector<ByteRanges>& all, std::string_view bytes) {
  return std::count_if(all.begin(), all.end(), [bytes](const ByteRanges& sequence) {
           return sequence.size() == bytes.size() &&
                  std::equal(bytes.begin(), bytes.end(), sequence.begin(), [](char c, const ByteRange& range) {
                    const auto byte = static_cast<uint8_t>(c);
                    return range.first <= byte && byte <= range.last;
                  });
         }) == 1;
}

TEST(CharSet, JoinsWhatTouchesAndKeepsSurrogatesOut) {
  CharSet set = {{'a', 'c'}, {'x', 'z'}, {'d', 'f'}};
  EXPECT_EQ(set.ranges(), (std::vector<CharRange>{{'a', 'f'}, {'x', 'z'}}));
  set.add('e', 'x');
  EXPECT_EQ(set.ranges(), (std::vector<CharRange>{{'a', 'z'}}));
  EXPECT_EQ(CharSet::all().ranges(), (std::vector<CharRange>{{0, 0xd7ff}, {0xe000, 0x10ffff}}));
  EXPECT_EQ(CharSet::all().negated().ranges().size(), 0U);
  EXPECT_TRUE(set.without({{'m', 'm'}}).contains('n'));
  EXPECT_FALSE(set.without({{'m', 'm'}}).contains('m'));
}

// Every string of up to three bytes, and four-byte strings around the borders, against the decoder.
TEST(CharSet, Utf8RangesAreTheEncodingsAndNothingElse) {
  const CharSet set = {{'b', 0x7f}, {0x85, 0x850}, {0xffc, 0xd7ff}, {0xf123, 0x10fff}, {0x100000, 0x10ffff}};
  const std::vector<ByteRanges> ranges = utf8_ranges(set);
  const auto check = [&](const std::string& bytes) {
    const Utf8Char c = decode_utf8(bytes);
    const bool is_char = c.status == Utf8Char::Status::kValid && c.size == bytes.size();
    ASSERT_EQ(has_encoding(ranges, bytes), is_char && set.contains(c.value)) << static_cast<uint32_t>(c.value);
  };
  for (int a = 0; a < 256; ++a) {
    const std::string one(1, static_cast<char>(a));
    check(one);
    for (int b = 0; b < 256; ++b) {
      const std::string two = one + static_cast<char>(b);
      check(two);
      for (const int c : {0x00, 0x7f, 0x80, 0x81, 0x84, 0xa2, 0xa3, 0xa4, 0xbc, 0xbf, 0xc0, 0xff}) {
        const std::string three = two + static_cast<char>(c);
        check(three);
        if (a >= 0xf0) {
          check(three + '\x80');
          check(three + '\xbf');
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom
