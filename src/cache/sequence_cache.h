// The cached state of one sequence: plan (pure) -> execute -> commit (moves one cursor; step_transaction.h).
//
// What a step may read is bounded by the cursor and the step's own rows, so bytes written by work that was never
// committed are never visible. A failure after execution started poisons the sequence: its ring may hold anything.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "cache/anchor.h"
#include "cache/cache_handles.h"

namespace fathom {

class Snapshot;

// What n more rows would do; nothing is reserved or written.
struct StepPlan {
  int start = 0;
  int n_rows = 0;
  int window_rows_written = 0;  // the newest rows only: min(n, ring rows)
  int window_first_row = 0;     // first of them, counted in the step's rows
  int window_first_slot = 0;    // ring row it goes to; the others follow, modulo the ring
  int window_valid_after = 0;   // rows of the last window that the ring holds: min(end, window)
  int entries4_before = 0;      // complete entries (compressed and index rows) of ratio-4 layers
  int entries4_after = 0;
  int entries128_before = 0;  // of ratio-128 layers
  int entries128_after = 0;
  int blocks_after = 0;            // length of the block table
  bool copies_last_block = false;  // rows go into a block that others see too: it is copied first
  int blocks_acquired = 0;         // what the step takes from the pool: new blocks and the copy

  [[nodiscard]] int end() const { return start + n_rows; }
};

// A moved-from sequence may only be destroyed or assigned to.
class SequenceCache {
 public:
  // Empty. Takes a slot from `pool`, which must outlive the sequence. Throws kCacheFull.
  explicit SequenceCache(CachePool& pool) : slot_(pool), blocks_(pool) {}

  [[nodiscard]] int position() const { return position_; }  // committed rows
  [[nodiscard]] bool poisoned() const { return poisoned_; }
  [[nodiscard]] int slot() const { return slot_.id(); }
  [[nodiscard]] std::span<const int32_t> blocks() const { return blocks_.ids(); }
  // The lowest position that rewind() accepts.
  [[nodiscard]] int rewind_floor() const;
  // How far behind the newest row that is at least, where the sequence has so many rows of its own.
  [[nodiscard]] int rewind_rows() const { return pool().layout().options.rewind_rows; }

  // Throws kPoisoned, kEmptyStep, kContextExhausted (nothing fits any more), kContextBound (n does not fit).
  [[nodiscard]] StepPlan plan(int n_rows) const;

  // Drops the last rows, as far as the rings still hold what lies before. Throws kPoisoned, kRewindBound.
  void rewind(int position);
  // Back to an empty sequence; clears poison.
  void reset() noexcept;
  // A second sequence with the same past: blocks are shared, the slot is copied. Throws kPoisoned, kCacheFull.
  [[nodiscard]] SequenceCache fork() const;
  // Throws kPoisoned, kCacheFull.
  [[nodiscard]] Snapshot snapshot() const;
  // Becomes what the snapshot froze, whatever happened since (also poison). Throws kSnapshotMismatch when it belongs to
  // another pool.
  void restore(const Snapshot& snapshot);

  // An anchor at `position`, which need not be the newest. Throws kPoisoned, and kRewindBound for a position that
  // rewind() would not reach.
  [[nodiscard]] Anchor freeze(int position) const;
  // Becomes a sequence at the anchor's position, whatever it was before (also poisoned). It cannot be rewound below.
  // The anchor must be of the same pool.
  void resume(const Anchor& anchor);

 private:
  friend class StepTransaction;

  [[nodiscard]] CachePool& pool() const { return slot_.pool(); }
  void check_not_poisoned() const;
  void check_reachable(const char* what, int position) const;
  void move_to(int position) noexcept;
  void poison() noexcept;

  CacheSlot slot_;
  BlockTable blocks_;
  int position_ = 0;
  int high_ = 0;   // highest position ever written into the slot: what bounds rewind
  int floor_ = 0;  // the slot holds nothing of lower positions' rings
  bool poisoned_ = false;
  uint64_t revision_ = 0;  // grows with every change, so that a step planned before it is recognised as stale
};

// A sequence frozen at one position: its own copy of the slot, and the blocks kept alive. Any sequence of the same pool
// can be restored from it, as often as needed.
class Snapshot {
 public:
  [[nodiscard]] int position() const { return state_.position(); }
  [[nodiscard]] int slot() const { return state_.slot(); }
  [[nodiscard]] std::span<const int32_t> blocks() const { return state_.blocks(); }

 private:
  friend class SequenceCache;
  explicit Snapshot(SequenceCache state) : state_(std::move(state)) {}

  SequenceCache state_;
};

}  // namespace fathom
