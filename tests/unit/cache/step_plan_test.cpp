#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>

#include "cache_fixture.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

// What a ring of `capacity` rows holds after positions [0, end) went in one by one: ring row -> position.
std::map<int, int> ring_after(int capacity, int end) {
  std::map<int, int> ring;
  for (int t = 0; t < end; ++t) {
    ring[t % capacity] = t;
  }
  return ring;
}

int entries_completed_before(int end, int ratio) {
  int n = 0;
  for (int t = 0; t < end; ++t) {
    n += (t + 1) % ratio == 0 ? 1 : 0;
  }
  return n;
}

TEST(StepPlan, AgreesWithRowByRowBookkeeping) {
  for (const int rewind_rows : {0, 1, 16}) {
    CacheFixture f({.max_context = 2000, .max_slots = 1, .max_blocks = 20}, rewind_rows);
    const int capacity = f.pool.layout().ring_rows;
    const int window = f.pool.layout().window;
    for (const int start : {0, 1, 3, 4, 5, 10, 11, 12, 26, 27, 28, 127, 128, 129, 300}) {
      const SequenceCache sequence = f.at(start);
      for (const int n : {1, 2, 3, 4, 5, 10, 11, 12, 13, 26, 27, 28, 53, 54, 55, 127, 128, 129, 256, 300}) {
        SCOPED_TRACE(testing::Message() << "rewind_rows " << rewind_rows << ", start " << start << ", n " << n);
        const StepPlan plan = sequence.plan(n);
        const int end = start + n;
        EXPECT_EQ(plan.start, start);
        EXPECT_EQ(plan.n_rows, n);
        EXPECT_EQ(plan.end(), end);

        EXPECT_EQ(plan.window_first_row + plan.window_rows_written, n);
        EXPECT_LE(plan.window_rows_written, capacity) << "two rows would race for one place";
        std::map<int, int> ring = ring_after(capacity, start);
        for (int i = 0; i < plan.window_rows_written; ++i) {
          ring[(plan.window_first_slot + i) % capacity] = start + plan.window_first_row + i;
        }
        EXPECT_EQ(ring, ring_after(capacity, end));
        int valid = 0;
        for (int t = end - 1; t >= 0 && t > end - 1 - window && ring[t % capacity] == t; --t) {
          ++valid;
        }
        EXPECT_EQ(plan.window_valid_after, valid);

        EXPECT_EQ(plan.entries4_before, entries_completed_before(start, 4));
        EXPECT_EQ(plan.entries4_after, entries_completed_before(end, 4));
        EXPECT_EQ(plan.entries128_before, entries_completed_before(start, 128));
        EXPECT_EQ(plan.entries128_after, entries_completed_before(end, 128));

        int blocks = 0;
        for (int t = 0; t < end; t += kBlock) {
          ++blocks;
        }
        EXPECT_EQ(plan.blocks_after, blocks);
        EXPECT_EQ(plan.blocks_acquired, blocks - static_cast<int>(sequence.blocks().size()));
        EXPECT_FALSE(plan.copies_last_block);
      }
    }
  }
}

// The geometry and the examples of the real model: a window of 128.
TEST(StepPlan, WritesTheNewestRowsOfALongStep) {
  ModelConfig config = toy_config();
  config.window = 128;
  struct Case {
    int rewind_rows, start, n, written, first_row, first_slot;
  };
  for (const Case& c : {Case{0, 0, 2048, 128, 1920, 0}, Case{0, 5, 300, 128, 172, 49}, Case{0, 5, 100, 100, 0, 5},
                        Case{0, 128, 1, 1, 0, 0}, Case{16, 5, 300, 144, 156, 17}, Case{16, 5, 144, 144, 0, 5}}) {
    FakeOps ops(CacheLayout::make(config, {.rewind_rows = c.rewind_rows}));
    CachePool pool(ops, {.max_context = 4096, .max_slots = 1, .max_blocks = 16});
    SequenceCache sequence(pool);
    if (c.start > 0) {
      StepTransaction step(pool);
      step.add(sequence, c.start);
      step.begin();
      step.commit();
    }
    const StepPlan plan = sequence.plan(c.n);
    EXPECT_EQ(plan.window_rows_written, c.written);
    EXPECT_EQ(plan.window_first_row, c.first_row);
    EXPECT_EQ(plan.window_first_slot, c.first_slot);
    EXPECT_EQ(plan.window_valid_after, std::min(c.start + c.n, 128));
  }
}

TEST(StepPlan, IsPure) {
  CacheFixture f;
  const SequenceCache sequence = f.at(100);
  const size_t bytes = f.pool.bytes_in_use();
  (void)sequence.plan(1000);
  EXPECT_EQ(sequence.position(), 100);
  EXPECT_EQ(sequence.blocks().size(), 1U);
  EXPECT_EQ(f.pool.bytes_in_use(), bytes);
}

TEST(StepPlan, CountsTheCopyOfASharedLastBlock) {
  CacheFixture f;
  const SequenceCache sequence = f.at(kBlock + 1);
  const SequenceCache other = sequence.fork();
  EXPECT_TRUE(sequence.plan(1).copies_last_block);
  EXPECT_EQ(sequence.plan(1).blocks_acquired, 1);
  EXPECT_EQ(sequence.plan(1).blocks_after, 2);
  EXPECT_EQ(sequence.plan(kBlock).blocks_acquired, 2);
  EXPECT_EQ(sequence.plan(kBlock).blocks_after, 3);
}

TEST(StepPlan, DoesNotCopyAFullBlock) {
  CacheFixture f;
  const SequenceCache sequence = f.at(2 * kBlock);
  const SequenceCache other = sequence.fork();
  EXPECT_FALSE(sequence.plan(1).copies_last_block);
  EXPECT_EQ(sequence.plan(1).blocks_acquired, 1);
}

TEST(StepPlan, RefusesAnEmptyStep) {
  CacheFixture f;
  const SequenceCache sequence(f.pool);
  EXPECT_ERROR((void)sequence.plan(0), ErrorCode::kEmptyStep, "step of 0 rows, expected at least 1");
  EXPECT_ERROR((void)sequence.plan(-3), ErrorCode::kEmptyStep, "step of -3 rows, expected at least 1");
}

TEST(StepPlan, RefusesWhatDoesNotFit) {
  CacheFixture f({.max_context = 300, .max_slots = 1, .max_blocks = 3});
  SequenceCache sequence = f.at(290);
  EXPECT_EQ(sequence.plan(10).end(), 300);
  EXPECT_ERROR((void)sequence.plan(11), ErrorCode::kContextBound,
               "11 rows after position 290 exceed the context of 300 positions");
  EXPECT_ERROR((void)sequence.plan(std::numeric_limits<int>::max()), ErrorCode::kContextBound,
               "2147483647 rows after position 290");
  f.advance(sequence, 10);
  EXPECT_ERROR((void)sequence.plan(1), ErrorCode::kContextExhausted, "the context of 300 positions is full");
  EXPECT_ERROR((void)sequence.plan(0), ErrorCode::kEmptyStep, "step of 0 rows");
}

TEST(StepPlan, RefusesAPoisonedSequence) {
  CacheFixture f;
  SequenceCache sequence = f.at(5);
  f.fail(sequence);
  EXPECT_ERROR((void)sequence.plan(1), ErrorCode::kPoisoned,
               "a step of this sequence failed; reset it or restore a snapshot");
}

}  // namespace
}  // namespace fathom
