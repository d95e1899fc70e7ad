// Byte-pair merging of one piece of text. Owns the merge table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"

namespace fathom {

class Bpe {
 public:
  struct Merge {
    TokenId left, right, result;
  };

  // Working memory of encode, to be reused from piece to piece.
  class Scratch {
    friend class Bpe;
    struct Symbol {
      TokenId token;
      uint32_t previous, next;  // places of the neighbours
      uint32_t rank;            // of the merge with the next symbol; kNone: no such merge, or merged away
    };
    std::vector<Symbol> symbols_;
    std::vector<uint64_t> heap_;
  };

  // `merges` by rank. Of two merges of one pair the first counts.
  Bpe(const std::array<TokenId, 256>& byte_tokens, std::span<const Merge> merges);

  // Appends the tokens of `piece` (shorter than 4 GiB): from single bytes, merges the adjacent pair of lowest rank, the
  // leftmost on ties, until there is none. Takes O(n log n).
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  [[nodiscard]] uint32_t rank_of(TokenId left, TokenId right) const;
  void queue_merge(uint32_t place, Scratch& scratch) const;

  std::array<TokenId, 256> byte_tokens_;
  std::unordered_map<uint64_t, uint32_t> ranks_;  // by pair
  std::vector<TokenId> results_;                  // by rank
};

}  // namespace fathom
