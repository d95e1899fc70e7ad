#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>

namespace fathom {
namespace {

uint64_t pair_key(TokenId left, TokenId right) noexcept {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

// Orders a min-heap by rank, then by place.
uint64_t heap_entry(uint32_t rank, uint32_t place) noexcept { return (uint64_t{rank} << 32) | place; }

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_tokens, std::span<const Merge> merges) : byte_tokens_(byte_tokens) {
  ranks_.reserve(merges.size());
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    ranks_.emplace(pair_key(merge.left, merge.right), static_cast<uint32_t>(results_.size()));
    results_.push_back(merge.result);
  }
}

uint32_t Bpe::rank_of(TokenId left, TokenId right) const {
  const auto found = ranks_.find(pair_key(left, right));
  return found == ranks_.end() ? kNone : found->second;
}

// Notes the merge of the symbol at `place` with its next one. The heap keeps earlier notes of the same place: they are
// stale when their rank is not the symbol's.
void Bpe::queue_merge(uint32_t place, Scratch& scratch) const {
  Scratch::Symbol& symbol = scratch.symbols_[place];
  symbol.rank = symbol.next == kNone ? kNone : rank_of(symbol.token, scratch.symbols_[symbol.next].token);
  if (symbol.rank != kNone) {
    scratch.heap_.push_back(heap_entry(symbol.rank, place));
    std::push_heap(scratch.heap_.begin(), scratch.heap_.end(), std::greater<>());
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (piece.empty()) {
    return;
  }
  const auto n = static_cast<uint32_t>(piece.size());
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  symbols.clear();
  heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    symbols.push_back({byte_tokens_[static_cast<uint8_t>(piece[i])], i == 0 ? kNone : i - 1, i + 1, kNone});
  }
  symbols.back().next = kNone;
  for (uint32_t i = 0; i < n; ++i) {
    queue_merge(i, scratch);
  }

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto place = static_cast<uint32_t>(heap.back());
    heap.pop_back();
    Scratch::Symbol& symbol = symbols[place];
    if (symbol.rank != rank) {
      continue;
    }
    Scratch::Symbol& merged_away = symbols[symbol.next];
    merged_away.rank = kNone;
    symbol.token = results_[rank];
    symbol.next = merged_away.next;
    if (symbol.next != kNone) {
      symbols[symbol.next].previous = place;
    }
    queue_merge(place, scratch);
    if (symbol.previous != kNone) {
      queue_merge(symbol.previous, scratch);
    }
  }
  for (uint32_t place = 0; place != kNone; place = symbols[place].next) {
    out.push_back(symbols[place].token);
  }
}

}  // namespace fathom
