#include "core/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

using Status = Utf8Char::Status;

std::string encode(char32_t c) {
  const auto byte = [](char32_t b) { return static_cast<char>(b); };
  if (c < 0x80) {
    return {byte(c)};
  }
  if (c < 0x800) {
    return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  }
  if (c < 0x10000) {
    return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  }
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
}

TEST(Utf8, DecodesEveryScalarValueAndNoSurrogate) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string bytes = encode(c);
    const Utf8Char decoded = decode_utf8(bytes);
    const bool is_surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(decoded.status == Status::kValid, !is_surrogate) << static_cast<uint32_t>(c);
    if (!is_surrogate) {
      ASSERT_EQ(decoded.value, c);
      ASSERT_EQ(decoded.size, bytes.size());
    }
  }
}

TEST(Utf8, FindsMaximalSubparts) {
  struct Case {
    std::string bytes;
    uint8_t size;
    Status status;
  };
  const Case cases[] = {
      {"\x80", 1, Status::kInvalid},      // continuation alone
      {"\xC0\x80", 1, Status::kInvalid},  // overlong
      {"\xC1\xBF", 1, Status::kInvalid},
      {"\xE0\x9F\xBF", 1, Status::kInvalid},  // overlong: the second byte does not fit the first
      {"\xED\xA0\x80", 1, Status::kInvalid},  // surrogate
      {"\xF0\x8F\xBF\xBF", 1, Status::kInvalid},
      {"\xF4\x90\x80\x80", 1, Status::kInvalid},  // above U+10FFFF
      {"\xF5\x80\x80\x80", 1, Status::kInvalid},
      {"\xFF", 1, Status::kInvalid},
      {"\xE4\xB8x", 2, Status::kInvalid},
      {"\xF0\x9F\x98x", 3, Status::kInvalid},
      {"\xC3", 1, Status::kIncomplete},
      {"\xE4\xB8", 2, Status::kIncomplete},
      {"\xF0\x9F\x98", 3, Status::kIncomplete},
  };
  for (const Case& c : cases) {
    const Utf8Char decoded = decode_utf8(c.bytes);
    EXPECT_EQ(decoded.size, c.size) << testing::PrintToString(c.bytes);
    EXPECT_EQ(decoded.status, c.status) << testing::PrintToString(c.bytes);
  }
}

TEST(Utf8, ReplacesAsUnicodeRecommends) {
  // The example of the Unicode Standard, table 3-8.
  const std::string bytes = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
  EXPECT_FALSE(is_valid_utf8(bytes));
  EXPECT_EQ(replace_invalid_utf8(bytes), "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(replace_invalid_utf8("x\xE4\xB8"), "x\uFFFD");
}

TEST(Utf8, KeepsWellFormedText) {
  const std::string text("\0 A\u00E9\u4E2D\U0001F600", 12);
  EXPECT_TRUE(is_valid_utf8(text));
  EXPECT_EQ(replace_invalid_utf8(text), text);
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_EQ(replace_invalid_utf8(""), "");
}

TEST(Utf8Stream, GivesTheSameTextHoweverItIsCut) {
  const std::string bytes = "a\u00E9\u4E2D\U0001F600\xFF\xE4\xB8z\xF0\x9F\x98";
  const std::string expected = "a\u00E9\u4E2D\U0001F600\uFFFD\uFFFDz\uFFFD";
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      Utf8Stream stream;
      std::string text = stream.push(bytes.substr(0, first));
      text += stream.push(bytes.substr(first, second - first));
      text += stream.push(bytes.substr(second));
      text += stream.finish();
      ASSERT_EQ(text, expected) << first << " " << second;
    }
  }
}

TEST(Utf8Stream, HoldsBackOnlyWhatMayBecomeACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("x\xF0\x9F"), "x");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80y"), "\U0001F600y");
  EXPECT_EQ(stream.push("\xE4\xB8"), "");
  EXPECT_EQ(stream.push("!"), "\uFFFD!");
  EXPECT_EQ(stream.push("\xC3"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xA9"), "\uFFFD");
}

}  // namespace
}  // namespace fathom
