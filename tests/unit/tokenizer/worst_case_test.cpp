// A megabyte of one kind of character must not take more than a moment.
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

// Quadratic work on this much takes minutes; the time taken is a fraction of a second, or a few with sanitizers.
constexpr size_t kTextBytes = 1'000'000;
constexpr double kLimitSeconds = 10;

class WorstCase : public testing::TestWithParam<std::string> {};

TEST_P(WorstCase, IsEncodedInTime) {
  static const Tokenizer tokenizer(test::bundled_tokenizer_data());
  std::string text;
  while (text.size() < kTextBytes) {
    text += GetParam();
  }
  for (const char* end : {"", "x"}) {  // what follows a run decides how it is cut
    text += end;
    const std::clock_t start = std::clock();  // processor time: other processes do not count
    const std::vector<TokenId> tokens = tokenizer.encode(text);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kLimitSeconds);
    EXPECT_EQ(tokenizer.decode(tokens), text);
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
