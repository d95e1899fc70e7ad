#include "cache/sequence_cache.h"

#include <fmt/core.h>

#include <algorithm>

#include "cache/anchor_image.h"
#include "core/check.h"
#include "core/error.h"

namespace fathom {

int SequenceCache::rewind_floor() const { return std::max(floor_, high_ - pool().layout().options.rewind_rows); }

StepPlan SequenceCache::plan(int n_rows) const {
  check_not_poisoned();
  if (n_rows < 1) {
    throw Error(ErrorCode::kEmptyStep, fmt::format("step of {} rows, expected at least 1", n_rows));
  }
  const int max_context = pool().limits().max_context;
  if (position_ == max_context) {
    throw Error(ErrorCode::kContextExhausted, fmt::format("the context of {} positions is full", max_context));
  }
  if (n_rows > max_context - position_) {
    throw Error(ErrorCode::kContextBound, fmt::format("{} rows after position {} exceed the context of {} positions",
                                                      n_rows, position_, max_context));
  }

  const CacheLayout& layout = pool().layout();
  StepPlan plan;
  plan.start = position_;
  plan.n_rows = n_rows;
  plan.window_rows_written = std::min(n_rows, layout.ring_rows);
  plan.window_first_row = n_rows - plan.window_rows_written;
  plan.window_first_slot = (position_ + plan.window_first_row) % layout.ring_rows;
  plan.window_valid_after = std::min(plan.end(), layout.window);
  plan.entries4_before = position_ / 4;
  plan.entries4_after = plan.end() / 4;
  plan.entries128_before = position_ / 128;
  plan.entries128_after = plan.end() / 128;
  plan.blocks_after = layout.blocks_for(plan.end());
  const bool fills_last_block = position_ % layout.options.block_tokens != 0;
  plan.copies_last_block = fills_last_block && blocks_.is_last_shared();
  plan.blocks_acquired = plan.blocks_after - blocks_.size() + (plan.copies_last_block ? 1 : 0);
  return plan;
}

void SequenceCache::rewind(int position) {
  check_reachable("rewind to", position);
  blocks_.truncate(pool().layout().blocks_for(position));
  move_to(position);
}

void SequenceCache::reset() noexcept {
  blocks_.truncate(0);
  high_ = 0;
  floor_ = 0;
  poisoned_ = false;
  move_to(0);
}

SequenceCache SequenceCache::fork() const {
  check_not_poisoned();
  SequenceCache copy(pool());
  copy.blocks_ = blocks_;
  copy.slot_.copy_from(slot_);
  copy.high_ = high_;
  copy.floor_ = floor_;
  copy.position_ = position_;
  return copy;
}

Snapshot SequenceCache::snapshot() const { return Snapshot(fork()); }

void SequenceCache::restore(const Snapshot& snapshot) {
  const SequenceCache& from = snapshot.state_;
  if (&from.pool() != &pool()) {
    throw Error(ErrorCode::kSnapshotMismatch,
                fmt::format("the snapshot at position {} belongs to another cache", from.position_));
  }
  BlockTable blocks = from.blocks_;
  poison();  // until the slot is whole again
  slot_.copy_from(from.slot_);
  blocks_ = std::move(blocks);
  high_ = from.high_;
  floor_ = from.floor_;
  poisoned_ = false;
  move_to(from.position_);
}

Anchor SequenceCache::freeze(int position) const {
  check_reachable("anchor at", position);
  const CacheLayout& layout = pool().layout();
  const std::span<std::byte> slot = pool().slot_scratch();
  slot_.read(slot);
  HostBuffer image(anchor_image_bytes(layout, position));
  pack_anchor_image(layout, position, slot, image.bytes());
  BlockTable blocks = blocks_;
  blocks.truncate(layout.blocks_for(position));
  return {position, std::move(image), std::move(blocks)};
}

void SequenceCache::resume(const Anchor& anchor) {
  FATHOM_CHECK(anchor.blocks().is_of(pool()), "the anchor belongs to another pool");
  const std::span<std::byte> slot = pool().slot_scratch();
  unpack_anchor_image(pool().layout(), anchor.position(), anchor.image(), slot);
  BlockTable blocks = anchor.blocks();
  poison();  // until the slot is whole again
  slot_.write(slot);
  blocks_ = std::move(blocks);
  high_ = anchor.position();
  floor_ = anchor.position();
  poisoned_ = false;
  move_to(anchor.position());
}

void SequenceCache::check_reachable(const char* what, int position) const {
  check_not_poisoned();
  if (position < rewind_floor() || position > position_) {
    throw Error(ErrorCode::kRewindBound,
                fmt::format("{} position {}, possible are {} to {}", what, position, rewind_floor(), position_));
  }
}

void SequenceCache::check_not_poisoned() const {
  if (poisoned_) {
    throw Error(ErrorCode::kPoisoned, "a step of this sequence failed; reset it or restore a snapshot");
  }
}

void SequenceCache::move_to(int position) noexcept {
  position_ = position;
  high_ = std::max(high_, position);
  ++revision_;
}

void SequenceCache::poison() noexcept {
  poisoned_ = true;
  ++revision_;
}

}  // namespace fathom
