// What no grammar may do: have no text, begin with itself, take all memory.
#include "grammar/automaton.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/gbnf.h"
#include "matching.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

#define EXPECT_GRAMMAR_ERROR(text, message) \
  EXPECT_ERROR(static_cast<void>(compile_grammar(parse_gbnf(text))), ErrorCode::kBadRequest, message)

TEST(Automaton, RefusesLeftRecursion) {
  EXPECT_GRAMMAR_ERROR("root ::= root \"a\" | \"a\"", "grammar: 'root' is left-recursive: it may begin with itself");
  EXPECT_GRAMMAR_ERROR("root ::= a\na ::= b \"x\" | \"\"\nb ::= e a\ne ::= \"\" | \"y\"", "is left-recursive");
  // Not left recursion: the call comes after a byte.
  EXPECT_TRUE(matches(parse_gbnf("root ::= \"a\" root | \"\""), "aaa"));
}

TEST(Automaton, RefusesGrammarsWithoutATextAndDropsSuchParts) {
  EXPECT_GRAMMAR_ERROR("root ::= \"a\" root", "grammar: no text matches 'root'");
  EXPECT_GRAMMAR_ERROR("root ::= \"a\" b\nb ::= \"c\" b", "grammar: no text matches 'root'");
  EXPECT_GRAMMAR_ERROR("root ::= [^\\x00-\\U0010ffff]", "grammar: no text matches 'root'");
  const Automaton automaton = compile_grammar(parse_gbnf("root ::= \"a\" b | \"ac\"\nb ::= \"c\" b"));
  EXPECT_TRUE(matches(automaton, "ac"));
  EXPECT_FALSE(matches(automaton, "acc"));
}

TEST(Automaton, RefusesWhatIsTooLarge) {
  EXPECT_GRAMMAR_ERROR("root ::= ((((\"ab\" | \"cd\"){1000}){1000}){1000}){1000}", "grammar: too large: more than");
  EXPECT_GRAMMAR_ERROR("root ::= (\"a\" [a-z]*){1000} | (\"a\" [a-z]*){1000}", "grammar: too large: more than");
  // One of two choices at each of 20 places back from the end: a million sets of places.
  EXPECT_GRAMMAR_ERROR("root ::= [ab]* \"a\" [ab]{20}", "grammar: too large: more than 60000 states");
  std::string many = "root ::= r0\n";
  for (int i = 0; i < 10'001; ++i) {
    many += fmt::format("r{} ::= \"a\"\n", i);
  }
  EXPECT_GRAMMAR_ERROR(many, "grammar: too large: 10002 rules, at most 10000");
  Grammar tokens;
  tokens.root = tokens.add_rule("root");
  std::vector<ExprId> names;
  for (int i = 0; i < 1001; ++i) {
    names.push_back(tokens.token(fmt::format("<{}>", i)));
  }
  tokens.define(tokens.root, tokens.choice(names));
  EXPECT_ERROR(static_cast<void>(compile_grammar(tokens)), ErrorCode::kBadRequest,
               "grammar: too large: more than 1000 control tokens");
}

TEST(Automaton, LongChainsOfRulesNeedNoStack) {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 9'000; ++i) {
    chain += fmt::format("r{} ::= \"(\"? r{}\n", i, i + 1);
  }
  chain += "r9000 ::= \"x\"\n";
  EXPECT_TRUE(matches(parse_gbnf(chain), "((x"));
}

TEST(Automaton, AmbiguityCostsNoMoreThanPlaces) {
  // Catalan numbers of parses.
  const Automaton automaton = compile_grammar(parse_gbnf("root ::= \"a\" | \"a\" root | \"a\" root root"));
  EXPECT_TRUE(matches(automaton, std::string(150, 'a')));
  const Automaton nested =
      compile_grammar(parse_gbnf("root ::= \"[\" root \"]\" \"x\" | \"[\" root \"]\" \"y\" | \"z\""));
  std::string text(300, '[');
  text += 'z';
  for (int i = 0; i < 300; ++i) {
    text += i % 3 == 0 ? "]x" : "]y";
  }
  EXPECT_TRUE(matches(nested, text));
}

TEST(Automaton, ListsDoNotGrowTheStack) {
  const Automaton automaton = compile_grammar(parse_gbnf("root ::= item root | item\nitem ::= \"a\" item | \"b\""));
  Matcher matcher(automaton);
  ASSERT_TRUE(matcher.accept("ab"));
  const size_t size = matcher.key().size();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(matcher.accept("aab"));
  }
  EXPECT_LE(matcher.key().size(), size);
}

TEST(Automaton, TooManyParsesAreAnError) {
  // Every position may begin a rule that may end at every later one, with a caller of its own.
  const Automaton automaton =
      compile_grammar(parse_gbnf("root ::= s\ns ::= \"a\" s \"b\" | \"a\" s s \"c\" | \"a\" s \"a\" | \"a\""));
  Matcher matcher(automaton);
  EXPECT_ERROR(
      for (int i = 0; i < 20'000; ++i) { static_cast<void>(matcher.accept("a")); }, ErrorCode::kBadRequest,
      "grammar: too ambiguous: a text has hundreds of parses at once");
}

}  // namespace
}  // namespace fathom
