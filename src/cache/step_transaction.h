// One step over several sequences, published all or none.
//
//   StepTransaction step(pool);
//   step.add(a, 5); step.add(b, 1);     // plans and reserves; throws and leaves everything as it was
//   step.begin();                       // from here on a failure poisons
//   forward(... step.slices() ...);
//   step.commit();
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/step_batch.h"
#include "cache/sequence_cache.h"

namespace fathom {

// Until commit() the sequences keep their own state: what a step needs beyond it belongs to the transaction. They must
// stay where they are as long as it lives.
class StepTransaction {
 public:
  explicit StepTransaction(CachePool& pool) : pool_(&pool) {}
  // Not begun: gives back what add() took. Begun and not committed: also poisons every sequence of the step.
  ~StepTransaction();
  StepTransaction(const StepTransaction&) = delete;
  StepTransaction& operator=(const StepTransaction&) = delete;

  // Rows are numbered in the order of add(); a sequence is added once. Throws what SequenceCache::plan() throws,
  // kCacheFull, and what the backend throws; the parts added before remain.
  void add(SequenceCache& sequence, int n_rows);
  [[nodiscard]] int rows() const { return rows_; }

  // Throws kEmptyStep when nothing was added; kPoisoned or kStepOutOfOrder when a sequence has changed since add().
  void begin();
  // After begin().
  [[nodiscard]] std::span<const SequenceSlice> slices() const { return slices_; }

  // Moves the cursors; cannot fail half-way. Throws kPoisoned or kStepOutOfOrder when a sequence has changed since
  // add(): then nothing is published, and the step has failed.
  void commit();

 private:
  enum class Stage : uint8_t { kAdding, kBegun, kCommitted };

  struct Part {
    SequenceCache* sequence;
    StepPlan plan;
    uint64_t revision;                 // the sequence's, at add()
    std::optional<BlockTable> blocks;  // the table after the step, where it differs from the sequence's
  };

  void check_current() const;

  CachePool* pool_;
  std::vector<Part> parts_;
  std::vector<SequenceSlice> slices_;
  int rows_ = 0;
  Stage stage_ = Stage::kAdding;
};

}  // namespace fathom
