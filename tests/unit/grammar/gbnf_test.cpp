#include "grammar/gbnf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "matching.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

struct Case {
  const char* grammar;
  std::vector<std::string> in;
  std::vector<std::string> out;
};

TEST(Gbnf, MatchesItsLanguage) {
  const Case cases[] = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "yes "}},
      {"root ::= \"a\"* \"b\"+ \"c\"?", {"b", "aabb", "abc"}, {"a", "c", "bcc", "ba"}},
      {"root ::= [a-c^]{2,3} [^a-c]", {"ab!", "^aaz", "cc\xe2\x82\xac"}, {"a!", "aaaa!", "aab", "ab\xe2\x82"}},
      {"root ::= .{2} # two characters\n", {"ab", "\xc3\xa9\xf0\x9f\x98\x80"}, {"a", "abc", "\xc3\xa9\xa9"}},
      {"root ::= item (\",\" ws item)*\nitem ::= [0-9]+\nws ::= \" \"?",
       {"1", "1,2", "10, 2,3"},
       {"", ",", "1,", "1,  2"}},
      {"root ::= \"(\" root? \")\" | \"[\" (\n  root\n  | \"x\"\n) \"]\"",
       {"()", "(())", "[x]", "([()])", "[[x]]"},
       {"(", "[]", "([)]", "x", "(x)"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\\\\\\"\" [\\]\\-\\^]",
       {"A\xc3\xa9\xf0\x9f\x98\x80\n\t\\\"]", "A\xc3\xa9\xf0\x9f\x98\x80\n\t\\\"-"},
       {"A"}},
      // Ambiguous, right recursive, nullable in the middle.
      {"root ::= a root | a\na ::= \"x\" | \"xx\"", {"x", "xx", "xxxxxxx"}, {"", "y", "xy"}},
      {"root ::= \"a\" e e root e | e\ne ::= \"\" | \"b\"",
       {"", "a", "ab", "abbb", "aab", "aabbbbb"},
       {"ba", "c", "aabbbbbb"}},
      {"root ::= s\ns ::= \"a\" s \"a\" | \"b\" s \"b\" | \"\"", {"", "aa", "abba", "abaaba"}, {"a", "ab", "aab"}},
      {"root ::= [a-z]{70,200} \"!\"",
       {std::string(70, 'q') + "!", std::string(200, 'q') + "!"},
       {std::string(69, 'q') + "!", std::string(201, 'q') + "!", std::string(70, 'q')}},
      {"root ::= \"<\" [a-z<]{0,500}\n", {"<", "<<a<", "<" + std::string(500, 'a')}, {"", "<" + std::string(501, 'a')}},
  };
  for (const Case& c : cases) {
    const Automaton automaton = compile_grammar(parse_gbnf(c.grammar));
    for (const std::string& text : c.in) {
      EXPECT_TRUE(matches(automaton, text)) << c.grammar << "\n  must match: " << text;
    }
    for (const std::string& text : c.out) {
      EXPECT_FALSE(matches(automaton, text)) << c.grammar << "\n  must not match: " << text;
    }
  }
}

TEST(Gbnf, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "grammar, line 1: there is no rule 'root'"},
      {"a ::= \"x\"", "grammar, line 1: there is no rule 'root'"},
      {"root ::= b\n", "grammar, line 1: rule 'b' is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "grammar, line 2: rule 'root' is defined twice"},
      {"root = \"a\"", "grammar, line 1: expected '::=' after 'root'"},
      {"root ::= \"a", "grammar, line 1: a '\"' without its end"},
      {"root ::= [a", "grammar, line 1: a '[' without its ']'"},
      {"root ::= [a-", "grammar, line 1: a '[' without its ']'"},
      {"root ::= [z-a]", "grammar, line 1: a range ends before it begins"},
      {"root ::= (\"a\"", "grammar, line 1: a '(' without its ')'"},
      {"root ::= \"a\")", "grammar, line 1: unexpected ')'"},
      {"root ::= \"a\"{2", "grammar, line 1: a '{' without its '}'"},
      {"root ::= \"a\"{x}", "grammar, line 1: expected a count"},
      {"root ::= \"a\"{3,2}", "grammar, line 1: {3,2}: the smaller count comes first"},
      {"root ::= \"a\"{100001}", "grammar, line 1: a count outside 0 to 100000"},
      {"root ::= \"a\"{99999999999}", "grammar, line 1: a count outside 0 to 100000"},
      {"root ::= \"\\q\"", "grammar, line 1: unknown escape; there are"},
      {"root ::= \"\\x4\"", "grammar, line 1: expected 2 hexadecimal digits"},
      {"root ::= \"\\ud800\"", "grammar, line 1: an escape that is no Unicode character"},
      {"root ::= \"\xff\"", "grammar, line 1: not valid UTF-8"},
      {"root ::= [\xff]", "grammar, line 1: not valid UTF-8"},
      {"root ::= %", "grammar, line 1: unexpected '%'"},
      {"\n\nroot ::= \"a\"\n%", "grammar, line 4: unexpected '%'"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_ERROR(static_cast<void>(parse_gbnf(text)), ErrorCode::kBadRequest, message);
  }
  EXPECT_ERROR(static_cast<void>(parse_gbnf("root ::= " + std::string(101, '('))), ErrorCode::kBadRequest,
               "parentheses nested deeper than 100");
  EXPECT_ERROR(static_cast<void>(parse_gbnf("root ::= \"a\"" + std::string(101, '*'))), ErrorCode::kBadRequest,
               "more than 100 counts after each other");
}

}  // namespace
}  // namespace fathom
