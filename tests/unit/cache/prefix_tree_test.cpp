#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "cache_fixture.h"

namespace fathom {
namespace {

using Tokens = std::vector<TokenId>;

Anchor empty_anchor(CacheFixture& f, int position) { return {position, HostBuffer(), BlockTable(f.pool)}; }

void put(PrefixTree& tree, CacheFixture& f, const Tokens& tokens) {
  PrefixNode& node = tree.insert(tokens);
  if (!node.anchor) {
    node.anchor.emplace(empty_anchor(f, node.position));
  }
}

TEST(PrefixTree, TellsWhereASequenceLeavesWhatIsStored) {
  CacheFixture f;
  PrefixTree tree;
  put(tree, f, {1, 2, 3, 4, 5});
  put(tree, f, {1, 2, 7});
  put(tree, f, {9});

  const PrefixTree::Walk inside = tree.walk(Tokens{1, 2, 3, 8});
  EXPECT_EQ(inside.matched, 3);
  EXPECT_EQ(inside.expected, 4);
  ASSERT_EQ(inside.nodes.size(), 1U) << "the node where two sequences part";
  EXPECT_EQ(inside.nodes[0]->position, 2);
  EXPECT_FALSE(inside.nodes[0]->anchor.has_value());

  const PrefixTree::Walk end = tree.walk(Tokens{1, 2, 7, 6});
  EXPECT_EQ(end.matched, 3);
  EXPECT_EQ(end.expected, std::nullopt) << "what is stored ends here";
  EXPECT_EQ(tree.walk(Tokens{1, 2, 3, 4, 5}).matched, 5);
  EXPECT_EQ(tree.walk(Tokens{5}).matched, 0);
  EXPECT_EQ(tree.walk(Tokens{}).matched, 0);
  EXPECT_EQ(tree.token_bytes(), (2 + 3 + 1 + 1) * sizeof(TokenId));
}

// Against a plain map from token sequences.
TEST(PrefixTree, RandomInsertionsAndRemovalsLeaveExactlyWhatIsThere) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  CacheFixture f;
  PrefixTree tree;
  std::map<Tokens, bool> stored;
  for (int i = 0; i < 5000; ++i) {
    Tokens tokens(static_cast<size_t>(1 + below(9)));
    std::generate(tokens.begin(), tokens.end(), [&] { return below(3); });
    if (below(2) == 0) {
      put(tree, f, tokens);
      stored[tokens] = true;
    } else if (stored.erase(tokens) > 0) {
      const PrefixTree::Walk walk = tree.walk(tokens);
      ASSERT_EQ(walk.nodes.back()->position, static_cast<int>(tokens.size()));
      walk.nodes.back()->anchor.reset();
      tree.tidy(*walk.nodes.back());
    }

    std::vector<int> expected;  // positions of anchors on the way of `tokens`
    int matched = 0;
    for (const auto& entry : stored) {
      const Tokens& other = entry.first;
      const auto common = std::mismatch(other.begin(), other.end(), tokens.begin(), tokens.end()).first - other.begin();
      matched = std::max(matched, static_cast<int>(common));
      if (common == static_cast<std::ptrdiff_t>(other.size())) {
        expected.push_back(static_cast<int>(other.size()));
      }
    }
    std::sort(expected.begin(), expected.end());
    const PrefixTree::Walk walk = tree.walk(tokens);
    std::vector<int> found;
    for (const PrefixNode* node : walk.nodes) {
      if (node->anchor) {
        found.push_back(node->position);
      }
    }
    ASSERT_EQ(found, expected);
    ASSERT_EQ(walk.matched, matched);
    size_t n_anchors = 0;
    tree.visit([&](const PrefixNode&) { ++n_anchors; });
    ASSERT_EQ(n_anchors, stored.size());
  }
  for (auto entry = stored.begin(); entry != stored.end(); entry = stored.erase(entry)) {
    PrefixNode& node = *tree.walk(entry->first).nodes.back();
    node.anchor.reset();
    tree.tidy(node);
  }
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.token_bytes(), 0U);
}

}  // namespace
}  // namespace fathom
