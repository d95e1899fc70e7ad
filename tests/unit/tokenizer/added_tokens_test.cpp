#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <utility>

namespace fathom {
namespace {

using Found = std::vector<std::pair<size_t, TokenId>>;  // begin of each match, token

const AddedTokens& tokens() {
  static const AddedTokens added({{"<a>", 1},
                                  {"<a>b", 2},
                                  {"<ab", 3},
                                  {std::string(literal::kUser), 4},
                                  {std::string(literal::kThink), 5},
                                  {std::string(literal::kDsml), 6},
                                  {"", 7},
                                  {"<a>", 8}});
  return added;
}

Found scan(std::string_view text, const EncodeOptions& options = {}) {
  Found found;
  AddedTokenScanner scanner(tokens(), text, options);
  while (const auto match = scanner.next()) {
    EXPECT_EQ(tokens().find(text.substr(match->span.begin, match->span.end - match->span.begin)), match->token);
    found.emplace_back(match->span.begin, match->token);
  }
  return found;
}

EncodeOptions trusting(std::span<const TextSpan> spans, bool markup_everywhere = true) {
  return {.added_tokens = AddedTokenPolicy::kTrusted, .trusted = spans, .markup_everywhere = markup_everywhere};
}

TEST(AddedTokens, FindsLiteralsAndTheFirstOfEqualOnes) {
  EXPECT_EQ(tokens().find("<a>"), 1);
  EXPECT_EQ(tokens().find(literal::kUser), 4);
  EXPECT_EQ(tokens().find("<a"), std::nullopt);
  EXPECT_EQ(tokens().find(""), std::nullopt);
  EXPECT_EQ(AddedTokens().find("x"), std::nullopt);
}

TEST(AddedTokenScanner, TakesTheLeftmostThenTheLongest) {
  EXPECT_EQ(scan("<a>"), (Found{{0, 1}}));
  EXPECT_EQ(scan("x<a>b<a>c"), (Found{{1, 2}, {5, 1}}));
  EXPECT_EQ(scan("<<ab<a"), (Found{{1, 3}}));
  EXPECT_EQ(scan("<a<ab>"), (Found{{2, 3}}));
  EXPECT_EQ(scan(""), Found{});
}

TEST(AddedTokenScanner, KnowsNoneWhereNoneMayCount) {
  EXPECT_EQ(scan("<a><think>", {.added_tokens = AddedTokenPolicy::kNowhere}), Found{});
}

TEST(AddedTokenScanner, CountsTrustedLiteralsOnly) {
  const TextSpan second[] = {{3, 6}};
  EXPECT_EQ(scan("<a><a><a>", trusting(second)), (Found{{3, 1}}));
  const TextSpan touching[] = {{0, 1}, {1, 3}, {7, 9}};
  EXPECT_EQ(scan("<a><a><a>", trusting(touching)), (Found{{0, 1}}));
  EXPECT_EQ(scan("<a>", trusting({})), Found{});
}

TEST(AddedTokenScanner, NeedsTrustInEveryByte) {
  const TextSpan all_but_last[] = {{0, 2}};
  const TextSpan all_but_first[] = {{1, 3}};
  const TextSpan gap[] = {{0, 1}, {2, 3}};
  EXPECT_EQ(scan("<a>", trusting(all_but_last)), Found{});
  EXPECT_EQ(scan("<a>", trusting(all_but_first)), Found{});
  EXPECT_EQ(scan("<a>", trusting(gap)), Found{});
}

TEST(AddedTokenScanner, UntrustedLiteralsDoNotHideTrustedOnes) {
  // "<a>b" reaches into untrusted text: the shorter literal counts. The untrusted "<ab" overlaps nothing trusted.
  const TextSpan spans[] = {{0, 3}};
  EXPECT_EQ(scan("<a>b", trusting(spans)), (Found{{0, 1}}));
}

TEST(AddedTokenScanner, MarkupIsAnOption) {
  const std::string text = std::string(literal::kThink) + std::string(literal::kUser) + std::string(literal::kDsml);
  const Found markup = {{0, 5}, {literal::kThink.size() + literal::kUser.size(), 6}};
  EXPECT_EQ(scan(text, trusting({})), markup);
  EXPECT_EQ(scan(text, trusting({}, false)), Found{});
}

TEST(AddedTokenScannerDeathTest, SpansAscend) {
  const TextSpan spans[] = {{3, 6}, {0, 3}};
  EXPECT_DEATH(scan("<a><a>", trusting(spans)), "trusted spans ascend");
}

}  // namespace
}  // namespace fathom
