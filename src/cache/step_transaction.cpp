#include "cache/step_transaction.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace fathom {

StepTransaction::~StepTransaction() {
  if (stage_ == Stage::kBegun) {
    for (const Part& part : parts_) {
      part.sequence->poison();
    }
  }
}

void StepTransaction::add(SequenceCache& sequence, int n_rows) {
  FATHOM_CHECK(stage_ == Stage::kAdding, "sequences are added before begin()");
  FATHOM_CHECK(&sequence.pool() == pool_, "the sequence belongs to another pool");
  FATHOM_CHECK(std::none_of(parts_.begin(), parts_.end(), [&](const Part& p) { return p.sequence == &sequence; }),
               "a sequence was added twice");

  Part part{&sequence, sequence.plan(n_rows), sequence.revision_, std::nullopt};
  if (part.plan.blocks_acquired > 0) {
    part.blocks = sequence.blocks_;
    part.blocks->extend(part.plan.blocks_after, part.plan.copies_last_block);
  }
  parts_.push_back(std::move(part));
  rows_ += n_rows;
}

void StepTransaction::begin() {
  FATHOM_CHECK(stage_ == Stage::kAdding, "a step begins once");
  if (parts_.empty()) {
    throw Error(ErrorCode::kEmptyStep, "step without sequences");
  }
  check_current();
  slices_.reserve(parts_.size());
  int row = 0;
  for (const Part& part : parts_) {
    const BlockTable& blocks = part.blocks ? *part.blocks : part.sequence->blocks_;
    slices_.push_back({.slot = part.sequence->slot_.id(),
                       .blocks = blocks.ids(),
                       .start = part.plan.start,
                       .first_row = row,
                       .n_rows = part.plan.n_rows});
    row += part.plan.n_rows;
  }
  stage_ = Stage::kBegun;
}

void StepTransaction::commit() {
  FATHOM_CHECK(stage_ == Stage::kBegun, "a step is committed once, after begin()");
  check_current();
  for (Part& part : parts_) {
    if (part.blocks) {
      part.sequence->blocks_ = std::move(*part.blocks);
    }
    part.sequence->move_to(part.plan.end());
  }
  stage_ = Stage::kCommitted;
}

void StepTransaction::check_current() const {
  for (const Part& part : parts_) {
    part.sequence->check_not_poisoned();
    if (part.sequence->revision_ != part.revision) {
      throw Error(ErrorCode::kStepOutOfOrder,
                  fmt::format("the step was planned at position {} of a sequence that has changed since (position {})",
                              part.plan.start, part.sequence->position_));
    }
  }
}

}  // namespace fathom
