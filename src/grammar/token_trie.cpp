#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/check.h"

namespace fathom {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.bytes, a.token) < std::tie(b.bytes, b.token); });
  std::vector<uint32_t> path;  // nodes of the string before
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  for (const Entry& entry : entries) {
    if (entry.bytes.empty()) {
      continue;
    }
    FATHOM_CHECK(entry.bytes.size() <= std::numeric_limits<uint16_t>::max(), "a token of 64 KiB");
    const auto common = static_cast<size_t>(
        std::mismatch(last.begin(), last.end(), entry.bytes.begin(), entry.bytes.end()).first - last.begin());
    close(common);
    while (path.size() < entry.bytes.size()) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size()),
                        .depth = static_cast<uint16_t>(path.size()),
                        .byte = static_cast<uint8_t>(entry.bytes[path.size() - 1])});
    }
    tokens_.push_back(entry.token);
    ++nodes_[path.back()].n_tokens;
    max_depth_ = std::max(max_depth_, path.size());
    last = entry.bytes;
  }
  close(0);
}

std::span<const TokenId> TokenTrie::tokens_below(size_t node) const {
  const uint32_t first = nodes_[node].first_token;
  const uint32_t after = nodes_[node].end;
  const size_t end = after < nodes_.size() ? nodes_[after].first_token : tokens_.size();
  return {tokens_.data() + first, end - first};
}

}  // namespace fathom
