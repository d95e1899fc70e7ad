// Masks against the meaning of the word: a token is allowed if its bytes are.
#include "grammar/token_grammar.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "grammar/gbnf.h"
#include "grammar/regex.h"
#include "random_walk.h"
#include "support/expect_error.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

std::shared_ptr<const GrammarVocabulary> bundled() {
  static const auto vocabulary = std::make_shared<const GrammarVocabulary>(Tokenizer(test::bundled_tokenizer_data()));
  return vocabulary;
}

// Walks at random, comparing the mask of every position with one made token by token.
void check_masks(const TokenGrammar& grammar) {
  std::mt19937 random(7);
  Matcher matcher = grammar.begin();
  std::vector<uint64_t> mask;
  for (int i = 0; i < 25; ++i) {
    grammar.fill_mask(matcher, mask);
    std::vector<TokenId> allowed;
    for (size_t t = 0; t < grammar.vocab(); ++t) {
      const auto token = static_cast<TokenId>(t);
      Matcher copy = matcher;
      const bool fits = grammar.accept(copy, token);
      ASSERT_EQ(test::may(mask, token), fits) << "token " << token << " '" << grammar.text(token) << "'";
      if (fits) {
        allowed.push_back(token);
      }
    }
    if (allowed.empty()) {
      ASSERT_TRUE(matcher.complete());
      break;
    }
    ASSERT_TRUE(grammar.accept(matcher, allowed[random() % allowed.size()]));
  }
}

TEST(TokenGrammar, MasksAreWhatTheMatcherAccepts) {
  for (const char* text : {
           "root ::= \"yes\" | \"no\" | \"maybe \" [a-z]+",
           "root ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [\"\\\\n])* \"\\\"\"",
           "root ::= [a-z ]{70,90} \".\"",
           "root ::= \"<\" [a-z<> ]{0,75} \"> \" [a-z]*",
           "root ::= s\ns ::= \"a\" s \"a\" | \"the \" s \" end\" | word\nword ::= [a-z]+ (\" \" [a-z]+)* | \"\"",
           "root ::= \"(\" root \")\" | text text\ntext ::= [^()]+",
           "root ::= line+\nline ::= [ -~]{0,66} \"\\n\"",
       }) {
    SCOPED_TRACE(text);
    check_masks(TokenGrammar(parse_gbnf(text), bundled()));
  }
}

TEST(TokenGrammar, ControlTokensComeOnlyWhereTheGrammarHasThem) {
  Grammar grammar;
  grammar.root = grammar.add_rule("root");
  grammar.define(grammar.root, grammar.sequence({grammar.literal("a<"), grammar.token(literal::kDsml),
                                                 grammar.repeat(grammar.chars(CharSet::all()), 0, std::nullopt),
                                                 grammar.literal("<"), grammar.token(literal::kThink)}));
  const TokenGrammar compiled(grammar, bundled());
  check_masks(compiled);
  Matcher matcher = compiled.begin();
  const TokenId dsml = *bundled()->find_token(literal::kDsml);
  EXPECT_FALSE(compiled.accept(matcher, dsml));
  EXPECT_TRUE(matcher.accept("a<"));
  EXPECT_TRUE(compiled.accept(matcher, dsml));
  EXPECT_FALSE(compiled.accept(matcher, dsml));
  EXPECT_FALSE(compiled.accept(matcher, -1));
  EXPECT_FALSE(compiled.accept(matcher, 1'000'000));

  Grammar unknown;
  unknown.root = unknown.add_rule("root");
  unknown.define(unknown.root, unknown.token("<none>"));
  EXPECT_ERROR(TokenGrammar(unknown, bundled()), ErrorCode::kBadRequest,
               "grammar: the model has no control token '<none>'");
}

TEST(TokenGrammar, TablesMadeBeforehandChangeNothing) {
  const TokenGrammar grammar(parse_gbnf("root ::= \"\\\"\" [^\"]* \"\\\"\" root | \"\""), bundled());
  grammar.prepare();
  check_masks(grammar);
}

}  // namespace
}  // namespace fathom
