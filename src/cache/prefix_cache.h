// What sequences left behind, for those that begin the same way: anchors in a tree over token ids. A new sequence goes
// on from the deepest anchor on its way. Rows are shared with the sequences that made them, never copied.
//
// Dropping an anchor takes nothing from anybody: sequences that went on from it hold its blocks themselves. So eviction
// needs no locks, only a choice: what costs least to compute again for the bytes it frees, unless it was used lately.
// Used by the engine's thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/prefix_match.h"
#include "cache/prefix_store.h"
#include "cache/prefix_tree.h"
#include "cache/sequence_cache.h"

namespace fathom {

struct PrefixCacheStats {
  size_t bytes = 0;         // images, tokens and blocks, those that live sequences hold too included
  size_t budget_bytes = 0;  // what `bytes` may become
  int anchors = 0;
  int blocks = 0;
  // Since the start.
  uint64_t hits = 0;    // sequences that went on from an anchor
  uint64_t misses = 0;  // and those that found none
  uint64_t cached_tokens = 0;
  uint64_t evictions = 0;
  std::optional<PrefixStoreStats> disk;
};

class PrefixCache {
 public:
  // `pool` must outlive the cache.
  PrefixCache(CachePool& pool, size_t budget_bytes) : pool_(&pool) { stats_.budget_bytes = budget_bytes; }
  // Anchors are also written to disk, and those that are there are found again. Once, before anything else.
  void use_store(std::unique_ptr<PrefixStore> store);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // For a sequence of `tokens` of which the last must be computed in any case. Changes nothing.
  [[nodiscard]] PrefixMatch match(std::span<const TokenId> tokens) const;
  // The same, and `sequence` goes on from there; it is left alone when cached is 0.
  PrefixMatch resume(std::span<const TokenId> tokens, SequenceCache& sequence);

  // Keeps an anchor of `sequence`, whose past begins with `tokens`, behind the last of them. Does nothing when there is
  // one already, or when the sequence can no longer be frozen there. May evict what is worth least, this one included.
  void keep(std::span<const TokenId> tokens, const SequenceCache& sequence);

  // Evicts until the pool can hand out `n_blocks`. False: nothing is left to evict and it cannot.
  bool make_room(int n_blocks);
  // Evicts everything, which stays on disk.
  void clear();
  // Until all that was kept is on disk.
  void flush();

  [[nodiscard]] PrefixCacheStats stats() const;

 private:
  // The deepest anchor before `end`, in memory or on disk.
  [[nodiscard]] static PrefixNode* best(const PrefixTree::Walk& walk, int end);
  // Brings an anchor from disk, behind `tokens`; false: it is not there any more, or there is no room.
  [[nodiscard]] bool load(PrefixNode& node, std::span<const TokenId> tokens);
  void store(PrefixNode& node, std::span<const TokenId> tokens);
  void find_stored();
  void touch(const PrefixTree::Walk& walk);
  void shrink_to_budget();
  [[nodiscard]] PrefixNode* least_valuable(bool must_free_blocks);
  [[nodiscard]] double value(const PrefixNode& node) const;
  void evict(PrefixNode& node);
  void count(const Anchor& anchor, int sign);
  void count_tree();

  CachePool* pool_;
  std::unique_ptr<PrefixStore> store_;  // may be empty
  PrefixTree tree_;
  std::vector<int> holders_;  // by block: anchors that hold it
  size_t image_bytes_ = 0;
  double age_ = 0.0;  // the value of what was last evicted: anchors touched since are worth that much more
  PrefixCacheStats stats_;
};

}  // namespace fathom
