// A pool over the fake backend and the toy geometry.
#pragma once

#include "cache/step_transaction.h"
#include "support/fake_ops.h"
#include "toy_model.h"

namespace fathom {

inline constexpr int kBlock = 128;  // positions per block

inline CacheLayout toy_layout(int rewind_rows, int context_length) {
  ModelConfig config = toy_config();
  config.context_length = context_length;
  return CacheLayout::make(config, {.block_tokens = kBlock, .rewind_rows = rewind_rows});
}

struct CacheFixture {
  explicit CacheFixture(const CacheLimits& limits = {.max_context = 2000, .max_slots = 8, .max_blocks = 100},
                        int rewind_rows = 16, int context_length = 4096)
      : ops(toy_layout(rewind_rows, context_length)), pool(ops, limits) {}

  // Commits n rows that nobody looks at.
  void advance(SequenceCache& sequence, int n) {
    StepTransaction step(pool);
    step.add(sequence, n);
    step.begin();
    step.commit();
  }

  [[nodiscard]] SequenceCache at(int position) {
    SequenceCache sequence(pool);
    if (position > 0) {
      advance(sequence, position);
    }
    return sequence;
  }

  // A step that starts and does not finish.
  void fail(SequenceCache& sequence) {
    StepTransaction step(pool);
    step.add(sequence, 1);
    step.begin();
  }

  FakeOps ops;
  CachePool pool;
};

}  // namespace fathom
