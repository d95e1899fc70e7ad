#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "support/read_file.h"

namespace fathom {
namespace {

TEST(Unicode, ClassifiesOnePerCategory) {
  struct Case {
    char32_t c;
    CharClass expected;
  };
  const Case cases[] = {
      {U'A', CharClass::kLetter},         // Lu
      {U'z', CharClass::kLetter},         // Ll
      {0x01C5, CharClass::kLetter},       // Lt
      {0x02B0, CharClass::kLetter},       // Lm
      {0x4E00, CharClass::kLetter},       // Lo
      {0x9FFF, CharClass::kLetter},       // Lo, inside a range that the database gives by its ends
      {0xD7A3, CharClass::kLetter},       // Lo, the last Hangul syllable
      {0x0301, CharClass::kMark},         // Mn
      {0x0903, CharClass::kMark},         // Mc
      {0x20DD, CharClass::kMark},         // Me
      {U'7', CharClass::kNumber},         // Nd
      {0x2167, CharClass::kNumber},       // Nl
      {0x00B2, CharClass::kNumber},       // No
      {U'_', CharClass::kPunctuation},    // Pc
      {0x2014, CharClass::kPunctuation},  // Pd
      {U'(', CharClass::kPunctuation},    // Ps
      {U')', CharClass::kPunctuation},    // Pe
      {0x00AB, CharClass::kPunctuation},  // Pi
      {0x00BB, CharClass::kPunctuation},  // Pf
      {U'%', CharClass::kPunctuation},    // Po
      {U'~', CharClass::kSymbol},         // Sm
      {U'$', CharClass::kSymbol},         // Sc
      {U'^', CharClass::kSymbol},         // Sk
      {0x1F600, CharClass::kSymbol},      // So
      {U'\n', CharClass::kSpace},         // Cc, White_Space
      {0x3000, CharClass::kSpace},        // Zs
      {0x2028, CharClass::kSpace},        // Zl
      {0x001F, CharClass::kOther},        // Cc
      {0x200B, CharClass::kOther},        // Cf
      {0xFEFF, CharClass::kOther},        // Cf
      {0xD800, CharClass::kOther},        // Cs
      {0xE000, CharClass::kOther},        // Co
      {0x0378, CharClass::kOther},        // Cn
      {0x10FFFF, CharClass::kOther},      // Cn, the last code point
      {0x110000, CharClass::kOther},      // no code point
      {0xFFFFFFFF, CharClass::kOther},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(char_class(c.c), c.expected) << "U+" << std::hex << static_cast<uint32_t>(c.c);
  }
}

TEST(Unicode, WhiteSpaceIsExactlyThese) {
  const std::vector<char32_t> expected = {0x0009, 0x000A, 0x000B, 0x000C, 0x000D, 0x0020, 0x0085, 0x00A0, 0x1680,
                                          0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                          0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  std::vector<char32_t> spaces;
  for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
    if (char_class(c) == CharClass::kSpace) {
      spaces.push_back(c);
    }
  }
  EXPECT_EQ(spaces, expected);
}

TEST(Unicode, TablesAreWhatTheGeneratorWrites) {
#ifndef FATHOM_UNICODE_GENERATOR
  GTEST_SKIP() << "built without ICU";
#else
  FILE* generator = ::popen("'" FATHOM_UNICODE_GENERATOR "'", "r");
  ASSERT_NE(generator, nullptr);
  std::string written;
  std::array<char, 4096> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), generator)) > 0;) {
    written.append(buffer.data(), n);
  }
  ASSERT_EQ(::pclose(generator), 0);
  if (written.find("kVersion = \"" + std::string(unicode_version()) + "\"") == std::string::npos) {
    GTEST_SKIP() << "this ICU has another version of Unicode than the tables' " << unicode_version();
  }
  EXPECT_TRUE(written == test::read_file(FATHOM_UNICODE_TABLES));
#endif
}

}  // namespace
}  // namespace fathom
