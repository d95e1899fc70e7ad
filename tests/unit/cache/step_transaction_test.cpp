#include "cache/step_transaction.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "cache_fixture.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

TEST(StepTransaction, DescribesItsRows) {
  CacheFixture f;
  SequenceCache a = f.at(kBlock - 2);
  SequenceCache b(f.pool);
  StepTransaction step(f.pool);
  step.add(a, 5);
  step.add(b, 1);
  EXPECT_EQ(step.rows(), 6);
  step.begin();

  ASSERT_EQ(step.slices().size(), 2U);
  const SequenceSlice& first = step.slices()[0];
  EXPECT_EQ(first.slot, a.slot());
  EXPECT_EQ(first.start, kBlock - 2);
  EXPECT_EQ(first.first_row, 0);
  EXPECT_EQ(first.n_rows, 5);
  ASSERT_EQ(first.blocks.size(), 2U);
  EXPECT_EQ(first.blocks[0], a.blocks()[0]);
  const SequenceSlice& second = step.slices()[1];
  EXPECT_EQ(second.slot, b.slot());
  EXPECT_EQ(second.start, 0);
  EXPECT_EQ(second.first_row, 5);
  EXPECT_EQ(second.n_rows, 1);
  EXPECT_EQ(second.blocks.size(), 1U);
  step.commit();
  EXPECT_EQ(a.blocks()[1], first.blocks[1]);
}

TEST(StepTransaction, PublishesOnlyOnCommit) {
  CacheFixture f;
  SequenceCache a = f.at(kBlock);
  StepTransaction step(f.pool);
  step.add(a, 3);
  step.begin();
  EXPECT_EQ(a.position(), kBlock);
  EXPECT_EQ(a.blocks().size(), 1U);
  step.commit();
  EXPECT_EQ(a.position(), kBlock + 3);
  EXPECT_EQ(a.blocks().size(), 2U);
}

TEST(StepTransaction, DroppedBeforeBeginLeavesNoTrace) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  const SequenceCache b = a.fork();
  const size_t bytes = f.pool.bytes_in_use();
  const std::vector<int32_t> blocks(a.blocks().begin(), a.blocks().end());
  {
    StepTransaction step(f.pool);
    step.add(a, 3 * kBlock);
    EXPECT_GT(f.pool.bytes_in_use(), bytes) << "reserved ahead";
  }
  EXPECT_EQ(f.pool.bytes_in_use(), bytes);
  EXPECT_EQ(std::vector<int32_t>(a.blocks().begin(), a.blocks().end()), blocks);
  EXPECT_EQ(a.position(), 7);
  EXPECT_FALSE(a.poisoned());
}

TEST(StepTransaction, DroppedAfterBeginPoisonsEverySequence) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  SequenceCache b = f.at(200);
  const SequenceCache bystander = a.fork();
  const size_t bytes = f.pool.bytes_in_use();
  {
    StepTransaction step(f.pool);
    step.add(a, 3 * kBlock);
    step.add(b, 1);
    step.begin();
  }
  EXPECT_TRUE(a.poisoned());
  EXPECT_TRUE(b.poisoned());
  EXPECT_FALSE(bystander.poisoned());
  EXPECT_EQ(a.position(), 7);
  EXPECT_EQ(b.position(), 200);
  EXPECT_EQ(f.pool.bytes_in_use(), bytes);
}

TEST(StepTransaction, AFailedAddKeepsTheOthers) {
  CacheFixture f({.max_context = 1000, .max_slots = 4, .max_blocks = 4});
  SequenceCache a = f.at(100);
  SequenceCache b = f.at(100);
  SequenceCache c = f.at(kBlock);
  StepTransaction step(f.pool);
  step.add(a, 2);
  EXPECT_ERROR(step.add(b, 500), ErrorCode::kCacheFull, "4 more blocks needed, but 3 of 4 are in use");
  EXPECT_ERROR(step.add(b, 901), ErrorCode::kContextBound, "901 rows after position 100");
  EXPECT_ERROR(step.add(b, 0), ErrorCode::kEmptyStep, "step of 0 rows");
  EXPECT_EQ(f.pool.blocks_in_use(), 3);
  step.add(c, 1);
  EXPECT_EQ(step.rows(), 3);
  EXPECT_ERROR(step.add(b, kBlock), ErrorCode::kCacheFull, "1 more blocks needed, but 4 of 4 are in use");
  step.begin();
  ASSERT_EQ(step.slices().size(), 2U);
  EXPECT_EQ(step.slices()[1].slot, c.slot());
  step.commit();
  EXPECT_EQ(a.position(), 102);
  EXPECT_EQ(b.position(), 100);
  EXPECT_EQ(c.position(), kBlock + 1);
}

TEST(StepTransaction, AFailedCopyInAddTakesNothing) {
  CacheFixture f;
  SequenceCache a = f.at(100);
  SequenceCache b = f.at(50);
  const SequenceCache other = a.fork();
  const size_t bytes = f.pool.bytes_in_use();
  StepTransaction step(f.pool);
  step.add(b, 1);
  f.ops.fail_copies = true;
  EXPECT_ERROR(step.add(a, 300), ErrorCode::kDevice, "fake: copy failed");
  f.ops.fail_copies = false;
  EXPECT_EQ(f.pool.bytes_in_use(), bytes);
  EXPECT_FALSE(a.poisoned());
  step.begin();
  step.commit();
  EXPECT_EQ(b.position(), 51);
}

TEST(StepTransaction, ForksThatStepTogetherPartWays) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  SequenceCache b = a.fork();
  StepTransaction step(f.pool);
  step.add(a, 1);
  step.add(b, 1);
  step.begin();
  EXPECT_NE(step.slices()[0].blocks[0], step.slices()[1].blocks[0]);
  step.commit();
  EXPECT_EQ(f.pool.blocks_in_use(), 2) << "the block that both left is free";
}

TEST(StepTransaction, BeginRefusesAnEmptyStep) {
  CacheFixture f;
  StepTransaction step(f.pool);
  EXPECT_ERROR(step.begin(), ErrorCode::kEmptyStep, "step without sequences");
}

TEST(StepTransaction, BeginRefusesASequenceThatMovedSinceAdd) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  SequenceCache b = f.at(7);
  StepTransaction stale(f.pool);
  stale.add(b, 1);
  stale.add(a, 1);
  f.advance(a, 2);
  EXPECT_ERROR(stale.begin(), ErrorCode::kStepOutOfOrder,
               "the step was planned at position 7 of a sequence that has changed since (position 9)");
  EXPECT_FALSE(a.poisoned()) << "nothing was executed";
  EXPECT_FALSE(b.poisoned());
}

TEST(StepTransaction, BeginRefusesASequenceThatCameBackToTheSamePosition) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  const Snapshot kept = a.snapshot();
  for (const auto& change : std::vector<std::function<void()>>{[&] { a.rewind(7); }, [&] { a.restore(kept); },
                                                               [&] { f.advance(a, 1), a.rewind(7); }}) {
    StepTransaction stale(f.pool);
    stale.add(a, 1);
    change();
    EXPECT_ERROR(stale.begin(), ErrorCode::kStepOutOfOrder, "has changed since (position 7)");
  }
}

TEST(StepTransaction, BeginRefusesASequencePoisonedSinceAdd) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  StepTransaction stale(f.pool);
  stale.add(a, 1);
  f.fail(a);
  EXPECT_ERROR(stale.begin(), ErrorCode::kPoisoned, "a step of this sequence failed");
}

TEST(StepTransaction, CommitOfAStaleStepPublishesNothingAndPoisonsAll) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  SequenceCache b = f.at(kBlock);
  SequenceCache c = f.at(9);
  {
    StepTransaction step(f.pool);
    step.add(a, 1);
    step.add(b, 1);
    step.add(c, 1);
    step.begin();
    b.reset();
    EXPECT_ERROR(step.commit(), ErrorCode::kStepOutOfOrder,
                 "the step was planned at position 128 of a sequence that has changed since (position 0)");
    EXPECT_EQ(a.position(), 7);
    EXPECT_EQ(c.position(), 9);
  }
  EXPECT_TRUE(a.poisoned());
  EXPECT_TRUE(b.poisoned()) << "its slot was written to";
  EXPECT_TRUE(c.poisoned());
  EXPECT_EQ(f.pool.blocks_in_use(), 2);
}

TEST(StepTransaction, CommitRefusesASequencePoisonedMeanwhile) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  StepTransaction step(f.pool);
  step.add(a, 1);
  step.begin();
  f.fail(a);
  EXPECT_ERROR(step.commit(), ErrorCode::kPoisoned, "a step of this sequence failed");
  EXPECT_EQ(a.position(), 7);
}

TEST(StepTransactionDeathTest, CatchesMisuse) {
  CacheFixture f;
  CacheFixture other;
  SequenceCache a = f.at(7);
  SequenceCache b = f.at(7);
  SequenceCache theirs = other.at(7);
  StepTransaction step(f.pool);
  EXPECT_DEATH(step.commit(), "a step is committed once, after begin");
  step.add(a, 1);
  EXPECT_DEATH(step.add(a, 1), "a sequence was added twice");
  EXPECT_DEATH(step.add(theirs, 1), "the sequence belongs to another pool");
  step.begin();
  EXPECT_DEATH(step.add(b, 1), "sequences are added before begin");
  EXPECT_DEATH(step.begin(), "a step begins once");
  step.commit();
  EXPECT_DEATH(step.commit(), "a step is committed once, after begin");
}

}  // namespace
}  // namespace fathom
