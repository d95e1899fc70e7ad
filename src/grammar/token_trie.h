// Byte strings of tokens as a tree, laid out so that one loop visits it and can leave a subtree out.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace fathom {

class TokenTrie {
 public:
  // In the order of a depth-first walk; the root, of no byte, is left out.
  struct Node {
    uint32_t end = 0;          // index after the last node below this one
    uint32_t first_token = 0;  // tokens(): those that end here begin there, ...
    uint32_t n_tokens = 0;
    uint16_t depth = 0;  // bytes from the root, this one included
    uint8_t byte = 0;
  };
  struct Entry {
    std::string_view bytes;  // at most 65,535
    TokenId token = 0;
  };

  TokenTrie() = default;
  // Empty strings are left out.
  explicit TokenTrie(std::vector<Entry> entries);

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const TokenId> tokens(const Node& node) const {
    return {tokens_.data() + node.first_token, node.n_tokens};
  }
  // Of the node and all below it.
  [[nodiscard]] std::span<const TokenId> tokens_below(size_t node) const;
  [[nodiscard]] size_t max_depth() const { return max_depth_; }
  [[nodiscard]] bool empty() const { return nodes_.empty(); }
  [[nodiscard]] size_t memory_bytes() const { return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(TokenId); }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // in the order of their nodes
  size_t max_depth_ = 0;
};

}  // namespace fathom
