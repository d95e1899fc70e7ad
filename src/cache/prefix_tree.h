// Token sequences that share their beginnings, as a radix tree: an edge is a run of tokens, a node a position in the
// sequences that pass through it. Nodes that hold an anchor, in memory or on disk, are places to go on from; the others
// are where sequences part. Owns nodes and anchors; decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/anchor.h"
#include "core/dtype.h"

namespace fathom {

struct PrefixNode {
  PrefixNode* parent = nullptr;                       // nullptr: the root
  std::vector<TokenId> edge;                          // the tokens that lead here from the parent
  int position = 0;                                   // tokens from the root
  std::vector<std::unique_ptr<PrefixNode>> children;  // their edges begin with different tokens
  std::optional<Anchor> anchor;
  std::optional<uint32_t> stored;  // the number of the same anchor in a PrefixStore
  bool offered = false;            // it is or will be stored

  [[nodiscard]] bool holds_something() const { return anchor || stored; }

  // Of the anchor, for whoever decides which to drop.
  double credit = 0.0;
  int hits = 0;
};

class PrefixTree {
 public:
  // How far `tokens` agree with what is stored.
  struct Walk {
    std::vector<PrefixNode*> nodes;   // on the way, without the root; the last may lie before `matched`
    int matched = 0;                  // tokens in common with the sequence that agrees longest
    std::optional<TokenId> expected;  // what that sequence goes on with, if it does
  };
  [[nodiscard]] Walk walk(std::span<const TokenId> tokens) const;

  // The node at the end of `tokens`, made if it is not there. `tokens` are not empty.
  PrefixNode& insert(std::span<const TokenId> tokens);
  // After a node has lost what it held: removes what leads nowhere and joins what no longer parts. Pointers to nodes
  // that hold something stay valid.
  void tidy(PrefixNode& node);

  // Every node with an anchor in memory, parents before children.
  template <class Visit>
  void visit(const Visit& visit) const {
    visit_below(*root_, visit);
  }
  // The one of them that has most of its past in common with `node`: one below it, else the next above. nullptr: none.
  [[nodiscard]] static const PrefixNode* nearest_anchor(const PrefixNode& node);
  [[nodiscard]] bool empty() const { return root_->children.empty(); }
  // Of the tokens on all edges.
  [[nodiscard]] size_t token_bytes() const { return n_tokens_ * sizeof(TokenId); }

 private:
  template <class Visit>
  static void visit_below(const PrefixNode& node, const Visit& visit) {
    for (const auto& child : node.children) {
      if (child->anchor) {
        visit(*child);
      }
      visit_below(*child, visit);
    }
  }

  std::unique_ptr<PrefixNode> root_ = std::make_unique<PrefixNode>();
  size_t n_tokens_ = 0;
};

}  // namespace fathom
