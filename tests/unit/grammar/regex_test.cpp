#include "grammar/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "matching.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

Grammar search_grammar(std::string_view pattern, TextCoding coding) {
  Grammar grammar;
  grammar.root = grammar.add_rule("root");
  grammar.define(grammar.root, add_regex(grammar, pattern, RegexMatch::kAnywhere, coding));
  return grammar;
}

struct Case {
  const char* pattern;
  std::vector<std::string> in;
  std::vector<std::string> out;
};

TEST(Regex, MatchesWholeTexts) {
  const Case cases[] = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^a|b$", {"a", "b"}, {"ab", ""}},
      {"a*?b+?(cd){2,3}", {"bcdcd", "aabbcdcdcd"}, {"bcd", "cdcd"}},
      {"(?:x|(?<name>y))?z", {"z", "xz", "yz"}, {"xyz"}},
      {"[^\\d\\s-]{3}", {"abc", "a_b"}, {"a1b", "a b", "a-b"}},
      {"\\w+@\\W\\D\\S", {"me_2@!xx"}, {"me@axx", "me@!1x", "me@!x "}},
      {"[\\w.-]+", {"a.b-c"}, {"a b"}},
      {"\\u00e9\\x41\\u{1f600}\\ud83d\\ude00",
       {"\xc3\xa9"
        "A\xf0\x9f\x98\x80\xf0\x9f\x98\x80"},
       {"eA"}},
      {"a.c",
       {"abc",
        "a\xc3\xa9"
        "c"},
       {"a\nc", "ac"}},
      {"\\$\\^\\.\\/\\-[\\]\\\\\\b]", {"$^./-]", "$^./-\\", "$^./-\b"}, {"$^./-b"}},
      {"", {""}, {"a"}},
      {"(^a$)|(^bc$)", {"a", "bc"}, {"abc"}},
      {"[a-z]{100,2000}", {std::string(100, 'x'), std::string(2000, 'x')}, {std::string(99, 'x')}},
  };
  for (const Case& c : cases) {
    const Automaton automaton = compile_grammar(regex_grammar(c.pattern));
    for (const std::string& text : c.in) {
      EXPECT_TRUE(matches(automaton, text)) << c.pattern << " must match " << text;
    }
    for (const std::string& text : c.out) {
      EXPECT_FALSE(matches(automaton, text)) << c.pattern << " must not match " << text;
    }
  }
}

TEST(Regex, FindsMatchesAnywhere) {
  const Automaton free = compile_grammar(search_grammar("b+c", TextCoding::kPlain));
  EXPECT_TRUE(matches(free, "abbcd"));
  EXPECT_TRUE(matches(free, "b\nbc"));
  EXPECT_FALSE(matches(free, "ab"));
  const Automaton begin = compile_grammar(search_grammar("^b|c$", TextCoding::kPlain));
  EXPECT_TRUE(matches(begin, "bxx"));
  EXPECT_TRUE(matches(begin, "xxc"));
  EXPECT_FALSE(matches(begin, "xbcx"));
}

TEST(Regex, WritesJsonStrings) {
  const Automaton automaton = compile_grammar(search_grammar("^[\"\\\\\n\\x01a]+$", TextCoding::kJson));
  EXPECT_TRUE(matches(automaton, "a\\\"\\\\\\n\\u0001"));
  EXPECT_FALSE(matches(automaton, "\""));
  EXPECT_FALSE(matches(automaton, "\n"));
  EXPECT_FALSE(matches(automaton, "\\x"));
}

TEST(Regex, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"a)", "regex 'a)', position 1: a ')' without its '('"},
      {"(a", "a '(' without its ')'"},
      {"[a", "a '[' without its ']'"},
      {"a**", "nothing to repeat"},
      {"*", "nothing to repeat"},
      {"a{", "'{' without a count"},
      {"a{,3}", "'{' without a count"},
      {"a{3,2}", "{3,2}: the smaller count comes first"},
      {"a{100001}", "a count over 100000"},
      {"(?=a)", "look-around is not supported"},
      {"(?<!a)", "look-around is not supported"},
      {"(?<n", "a group's name without its '>'"},
      {"(a)\\1", "back references are not supported"},
      {"a\\b", "word borders (\\b) are not supported"},
      {"\\p{L}", "Unicode properties (\\p) are not supported"},
      {"\\", "a backslash at the end"},
      {"\\y", "unknown escape \\y"},
      {"\\x1", "expected 2 hexadecimal digits"},
      {"\\u{110000}", "an escape that is no Unicode character"},
      {"\\ud800", "an escape that is no Unicode character"},
      {"[\\d-z]x[a-\\d]", "a range needs one character at each end"},
      {"[z-a]", "a range ends before it begins"},
      {"a^b", "^ and $ are supported at the ends of the text only"},
      {"a$b", "^ and $ are supported at the ends of the text only"},
      {"(^a|b)c", "^ and $ are supported in all branches of a group or in none"},
      {"(^a)*", "^ and $ cannot be repeated"},
      {"\xff", "not valid UTF-8"},
  };
  for (const auto& [pattern, message] : cases) {
    EXPECT_ERROR(static_cast<void>(regex_grammar(pattern)), ErrorCode::kBadRequest, message);
  }
  EXPECT_ERROR(static_cast<void>(regex_grammar(std::string(101, '('))), ErrorCode::kBadRequest,
               "groups nested deeper than 100");
}

}  // namespace
}  // namespace fathom
