#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace fathom {
namespace {

using Tokens = std::vector<TokenId>;

std::array<TokenId, 256> identity_bytes() {
  std::array<TokenId, 256> tokens{};
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

Tokens encode(std::span<const Bpe::Merge> merges, std::string_view piece) {
  const Bpe bpe(identity_bytes(), merges);
  Bpe::Scratch scratch;
  Tokens tokens;
  bpe.encode(piece, scratch, tokens);
  return tokens;
}

// The definition, word by word.
Tokens encode_naively(std::span<const Bpe::Merge> merges, std::string_view piece) {
  Tokens tokens;
  for (const char c : piece) {
    tokens.push_back(static_cast<uint8_t>(c));
  }
  for (;;) {
    size_t best_rank = merges.size();
    size_t best_place = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto merge = std::find_if(merges.begin(), merges.end(), [&](const Bpe::Merge& m) {
        return m.left == tokens[i] && m.right == tokens[i + 1];
      });
      const auto rank = static_cast<size_t>(merge - merges.begin());
      if (rank < best_rank) {
        best_rank = rank;
        best_place = i;
      }
    }
    if (best_rank == merges.size()) {
      return tokens;
    }
    tokens[best_place] = merges[best_rank].result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
  }
}

TEST(Bpe, MergesTheLeftmostOfEqualPairs) {
  const Bpe::Merge merges[] = {{'a', 'a', 256}};
  EXPECT_EQ(encode(merges, "aaa"), (Tokens{256, 'a'}));
  EXPECT_EQ(encode(merges, "aaaaa"), (Tokens{256, 256, 'a'}));
}

TEST(Bpe, MergesByRankNotByLength) {
  const Bpe::Merge merges[] = {{'b', 'c', 256}, {'a', 'b', 257}, {257, 'c', 258}};
  EXPECT_EQ(encode(merges, "abc"), (Tokens{'a', 256}));
  EXPECT_EQ(encode(merges, "ab"), (Tokens{257}));
}

TEST(Bpe, TheFirstMergeOfAPairCounts) {
  const Bpe::Merge merges[] = {{'a', 'b', 256}, {'a', 'b', 257}};
  EXPECT_EQ(encode(merges, "ab"), (Tokens{256}));
}

TEST(Bpe, EncodesNothingAndSingleBytes) {
  EXPECT_EQ(encode({}, ""), Tokens{});
  EXPECT_EQ(encode({}, std::string("\xFF\0", 2)), (Tokens{255, 0}));
}

TEST(Bpe, AgreesWithTheDefinitionOnRandomTables) {
  std::mt19937 random(11);
  for (int table = 0; table < 300; ++table) {
    // Results are often shared by several merges, and pairs repeat: more than real tables do.
    std::vector<TokenId> symbols = {'a', 'b', 'c'};
    std::vector<Bpe::Merge> merges;
    const auto pick = [&] { return symbols[random() % symbols.size()]; };
    for (size_t n = random() % 30; n > 0; --n) {
      const TokenId result = random() % 4 == 0 ? pick() : static_cast<TokenId>(256 + merges.size());
      merges.push_back({pick(), pick(), result});
      symbols.push_back(result);
    }
    for (int i = 0; i < 20; ++i) {
      std::string piece(random() % 40, '\0');
      for (char& c : piece) {
        c = static_cast<char>('a' + random() % 3);
      }
      ASSERT_EQ(encode(merges, piece), encode_naively(merges, piece)) << "table " << table << ", " << piece;
    }
  }
}

}  // namespace
}  // namespace fathom
