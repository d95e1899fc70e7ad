#include "cache/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fathom {
namespace {

using Children = std::vector<std::unique_ptr<PrefixNode>>;

Children::iterator child_with(PrefixNode& node, TokenId first) {
  return std::find_if(node.children.begin(), node.children.end(),
                      [&](const std::unique_ptr<PrefixNode>& child) { return child->edge.front() == first; });
}

size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

// Puts a node into the edge that leads to `child`, `length` tokens behind its beginning.
PrefixNode& split_edge(std::unique_ptr<PrefixNode>& child, size_t length) {
  auto middle = std::make_unique<PrefixNode>();
  const auto cut = child->edge.begin() + static_cast<std::ptrdiff_t>(length);
  middle->edge.assign(child->edge.begin(), cut);
  middle->parent = child->parent;
  middle->position = child->position - static_cast<int>(child->edge.size() - length);
  child->edge.erase(child->edge.begin(), cut);
  child->edge.shrink_to_fit();
  child->parent = middle.get();
  middle->children.push_back(std::move(child));
  child = std::move(middle);
  return *child;
}

const PrefixNode* first_anchor(const PrefixNode& node) {
  if (node.anchor) {
    return &node;
  }
  for (const auto& child : node.children) {
    if (const PrefixNode* found = first_anchor(*child)) {
      return found;
    }
  }
  return nullptr;
}

}  // namespace

PrefixTree::Walk PrefixTree::walk(std::span<const TokenId> tokens) const {
  Walk walk;
  PrefixNode* node = root_.get();
  while (true) {
    const std::span<const TokenId> rest = tokens.subspan(static_cast<size_t>(walk.matched));
    if (rest.empty()) {
      walk.expected = node->children.empty() ? std::nullopt : std::optional(node->children.front()->edge.front());
      return walk;
    }
    const auto child = child_with(*node, rest.front());
    if (child == node->children.end()) {
      walk.expected = node->children.empty() ? std::nullopt : std::optional(node->children.front()->edge.front());
      return walk;
    }
    const std::vector<TokenId>& edge = (*child)->edge;
    const size_t common = common_length(edge, rest);
    walk.matched += static_cast<int>(common);
    if (common < edge.size()) {
      walk.expected = edge[common];
      return walk;
    }
    node = child->get();
    walk.nodes.push_back(node);
  }
}

PrefixNode& PrefixTree::insert(std::span<const TokenId> tokens) {
  FATHOM_CHECK(!tokens.empty(), "an anchor stands behind at least one token");
  PrefixNode* node = root_.get();
  while (!tokens.empty()) {
    const auto child = child_with(*node, tokens.front());
    if (child == node->children.end()) {
      auto leaf = std::make_unique<PrefixNode>();
      leaf->parent = node;
      leaf->edge.assign(tokens.begin(), tokens.end());
      leaf->position = node->position + static_cast<int>(tokens.size());
      n_tokens_ += tokens.size();
      return *node->children.emplace_back(std::move(leaf));
    }
    const size_t common = common_length((*child)->edge, tokens);
    node = common < (*child)->edge.size() ? &split_edge(*child, common) : child->get();
    tokens = tokens.subspan(common);
  }
  return *node;
}

void PrefixTree::tidy(PrefixNode& node) {
  PrefixNode* at = &node;
  while (at->parent != nullptr && !at->holds_something() && at->children.empty()) {
    PrefixNode* parent = at->parent;
    n_tokens_ -= at->edge.size();
    parent->children.erase(child_with(*parent, at->edge.front()));
    at = parent;
  }
  if (at->parent == nullptr || at->holds_something() || at->children.size() != 1) {
    return;
  }
  // The only child takes the place of its parent.
  std::unique_ptr<PrefixNode>& place = *child_with(*at->parent, at->edge.front());
  std::unique_ptr<PrefixNode> child = std::move(at->children.front());
  child->edge.insert(child->edge.begin(), at->edge.begin(), at->edge.end());
  child->parent = at->parent;
  place = std::move(child);
}

const PrefixNode* PrefixTree::nearest_anchor(const PrefixNode& node) {
  const PrefixNode* found = first_anchor(node);
  for (const PrefixNode* above = node.parent; found == nullptr && above != nullptr; above = above->parent) {
    found = above->anchor ? above : nullptr;
  }
  return found;
}

}  // namespace fathom
