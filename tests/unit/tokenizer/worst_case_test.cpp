// A megabyte of one kind of character must not take more than a moment.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

// Quadratic work on this much takes minutes; linear work takes a fraction of a second, even with sanitizers.
constexpr size_t kTextBytes = 1'000'000;
constexpr std::chrono::seconds kLimit(10);

class WorstCase : public testing::TestWithParam<std::string> {};

TEST_P(WorstCase, IsEncodedInTime) {
  const Tokenizer tokenizer(test::bundled_tokenizer_data());
  std::string text;
  while (text.size() < kTextBytes) {
    text += GetParam();
  }
  for (const std::string& end : {std::string(), std::string("x"), std::string("\n")}) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<TokenId> tokens = tokenizer.encode(text + end);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLimit);
    EXPECT_EQ(tokenizer.decode(tokens), text + end);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, WorstCase,
                         testing::Values("a", "e", "the", " ", "\n", "\t", "\r\n ", "\u00A0", "7", "\u0663", "!", "= ",
                                         "\u4E2D", "\u30A2", "\u0301", "\U0001F600", "\u200B", "\x01 ", "\xFF", "<",
                                         "<\uFF5C", "</think", "\uFF5C",
                                         "\uFF5C"
                                         "DSML",
                                         " \n", std::string(1, '\0')));

}  // namespace
}  // namespace fathom
