// The cached state of one sequence: plan (pure) -> execute -> commit (moves one cursor).
//
// What a step may read is bounded by the cursor and the step's own rows, so bytes written by work that was never
// committed are never visible. A failure after execution started poisons the sequence: its ring may hold anything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_batch.h"
#include "cache/cache_pool.h"

namespace fathom {

class Snapshot;
class StepTransaction;

// What n more rows would do, per compression ratio; nothing is reserved or written.
struct StepPlan {
  int start = 0;
  int n_rows = 0;
  int window_rows_written = 0;                  // the newest rows only: min(n, ring capacity)
  int window_first_row = 0;                     // first of them, counted in the step's rows
  int window_first_slot = 0;                    // ring slot of that row
  int window_valid_after = 0;                   // raw rows the next query can see, itself not counted: min(end, window)
  int entries4_before = 0, entries4_after = 0;  // compressed and index rows of ratio-4 layers
  int entries128_before = 0, entries128_after = 0;  // of ratio-128 layers
  int blocks_after = 0;
};

class SequenceCache {
 public:
  // Takes a slot from `pool`, which must outlive it. Throws kCacheFull.
  explicit SequenceCache(CachePool& pool);
  ~SequenceCache();
  SequenceCache(SequenceCache&& other) noexcept;
  SequenceCache& operator=(SequenceCache&& other) noexcept;
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  [[nodiscard]] int position() const { return position_; }  // committed rows
  [[nodiscard]] bool poisoned() const { return poisoned_; }
  [[nodiscard]] int blocks() const { return static_cast<int>(blocks_.size()); }
  // The lowest position that rewind() accepts.
  [[nodiscard]] int rewind_floor() const;

  // Throws kPoisoned, kEmptyStep, kContextExhausted (nothing fits any more), kContextBound (n does not fit).
  [[nodiscard]] StepPlan plan(int n_rows) const;

  // Drops the last rows, as far as the rings still hold what lies before. Throws kRewindBound, kPoisoned.
  void rewind(int position);
  // Back to an empty sequence; clears poison.
  void reset() noexcept;
  // A second sequence with the same past; blocks are shared, the slot is copied. Throws kPoisoned, kCacheFull.
  [[nodiscard]] SequenceCache fork() const;
  // Throws kPoisoned, kCacheFull.
  [[nodiscard]] Snapshot snapshot() const;
  // Returns to the snapshot's position, whatever happened since (also poison). Throws kSnapshotMismatch when the
  // snapshot belongs to another pool.
  void restore(const Snapshot& snapshot);

 private:
  friend class StepTransaction;
  friend class Snapshot;

  void release_blocks_from(size_t first) noexcept;

  CachePool* pool_;
  int slot_;
  std::vector<int32_t> blocks_;
  int position_ = 0;
  int high_ = 0;  // highest position ever written into the slot: what bounds rewind
  bool poisoned_ = false;
  uint64_t revision_ = 0;  // changes with every commit, rewind, reset and restore: detects stale transactions
};

// A sequence frozen at one position. Holds its own copy of the slot and keeps the blocks alive.
class Snapshot {
 public:
  ~Snapshot();
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&& other) noexcept;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  [[nodiscard]] int position() const { return state_.position(); }

 private:
  friend class SequenceCache;
  explicit Snapshot(SequenceCache state) : state_(std::move(state)) {}

  SequenceCache state_;
};

// One step over several sequences, published all or none.
//
//   StepTransaction step(pool);
//   step.add(a, 5); step.add(b, 1);     // plans and reserves; throws and leaves everything as it was
//   step.begin();                       // from here on a failure poisons
//   forward(... step.slices() ...);
//   step.commit();
class StepTransaction {
 public:
  explicit StepTransaction(CachePool& pool) : pool_(&pool) {}
  // Not begun: gives reserved blocks back. Begun and not committed: poisons every sequence of the step.
  ~StepTransaction();
  StepTransaction(const StepTransaction&) = delete;
  StepTransaction& operator=(const StepTransaction&) = delete;

  // Rows are numbered in the order of add(). Throws what plan() throws, and kCacheFull.
  void add(SequenceCache& sequence, int n_rows);
  [[nodiscard]] std::span<const SequenceSlice> slices() const { return slices_; }
  void begin();
  // Throws kStepOutOfOrder when a sequence has moved since add(): then nothing is published and all are poisoned.
  void commit();

 private:
  struct Part {
    SequenceCache* sequence;
    StepPlan plan;
    uint64_t revision;
    size_t blocks_before;
  };

  CachePool* pool_;
  std::vector<Part> parts_;
  std::vector<SequenceSlice> slices_;
  int rows_ = 0;
  bool begun_ = false;
  bool committed_ = false;
};

}  // namespace fathom
