#include "cache/sequence_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cache_fixture.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

using Copies = std::vector<FakeOps::Copy>;

std::vector<int32_t> ids(std::span<const int32_t> blocks) { return {blocks.begin(), blocks.end()}; }

TEST(SequenceCache, StartsEmpty) {
  CacheFixture f;
  const SequenceCache sequence(f.pool);
  EXPECT_EQ(sequence.position(), 0);
  EXPECT_EQ(sequence.rewind_floor(), 0);
  EXPECT_TRUE(sequence.blocks().empty());
  EXPECT_FALSE(sequence.poisoned());
}

TEST(SequenceCache, ForkSharesBlocksAndCopiesTheSlot) {
  CacheFixture f;
  const SequenceCache a = f.at(kBlock + 7);
  const SequenceCache b = a.fork();
  EXPECT_EQ(b.position(), kBlock + 7);
  EXPECT_EQ(b.rewind_floor(), a.rewind_floor());
  EXPECT_EQ(ids(b.blocks()), ids(a.blocks()));
  EXPECT_NE(b.slot(), a.slot());
  EXPECT_EQ(f.ops.slot_copies, (Copies{{a.slot(), b.slot()}}));
  EXPECT_TRUE(f.ops.block_copies.empty());
}

TEST(SequenceCache, AWriterCopiesTheSharedLastBlockOnce) {
  CacheFixture f;
  SequenceCache a = f.at(kBlock + 7);
  const SequenceCache b = a.fork();
  const std::vector<int32_t> before = ids(a.blocks());

  f.advance(a, 1);
  EXPECT_EQ(a.blocks()[0], before[0]);
  EXPECT_NE(a.blocks()[1], before[1]);
  EXPECT_EQ(ids(b.blocks()), before);
  EXPECT_EQ(f.ops.block_copies, (Copies{{before[1], a.blocks()[1]}}));

  f.advance(a, 1);
  EXPECT_EQ(f.ops.block_copies.size(), 1U);
}

TEST(SequenceCache, TheLastHolderWritesWithoutACopy) {
  CacheFixture f;
  SequenceCache a = f.at(7);
  { const SequenceCache b = a.fork(); }
  f.advance(a, 1);
  EXPECT_TRUE(f.ops.block_copies.empty());
}

TEST(SequenceCache, RewindGivesBackWholeBlocksOnly) {
  CacheFixture f;
  SequenceCache a = f.at(2 * kBlock + 3);
  EXPECT_EQ(f.pool.blocks_in_use(), 3);
  a.rewind(2 * kBlock + 1);
  EXPECT_EQ(f.pool.blocks_in_use(), 3);
  a.rewind(2 * kBlock);
  EXPECT_EQ(f.pool.blocks_in_use(), 2);
  a.rewind(2 * kBlock - 1);
  EXPECT_EQ(f.pool.blocks_in_use(), 2);
  EXPECT_EQ(a.position(), 2 * kBlock - 1);
}

TEST(SequenceCache, RewindIntoASharedBlockCopiesItOnTheNextWrite) {
  CacheFixture f;
  SequenceCache a = f.at(2 * kBlock + 3);
  const Snapshot kept = a.snapshot();
  a.rewind(2 * kBlock - 5);
  EXPECT_EQ(f.pool.blocks_in_use(), 3) << "the snapshot still holds the third";
  EXPECT_TRUE(f.ops.block_copies.empty());

  const int32_t shared = a.blocks()[1];
  f.advance(a, 10);
  EXPECT_EQ(f.ops.block_copies, (Copies{{shared, a.blocks()[1]}}));
  EXPECT_EQ(kept.blocks()[1], shared);
  EXPECT_NE(kept.blocks()[2], a.blocks()[2]);
}

TEST(SequenceCache, RewindIsBoundByTheHighestPositionEverWritten) {
  CacheFixture f;  // 16 spare rows
  SequenceCache a = f.at(100);
  EXPECT_EQ(a.rewind_floor(), 84);
  a.rewind(90);
  f.advance(a, 5);
  EXPECT_EQ(a.position(), 95);
  EXPECT_EQ(a.rewind_floor(), 84) << "the rows of 95 to 99 are still in the ring's place of 79 to 83";
  EXPECT_ERROR(a.rewind(83), ErrorCode::kRewindBound, "rewind to position 83, possible are 84 to 95");
  EXPECT_ERROR(a.rewind(96), ErrorCode::kRewindBound, "rewind to position 96, possible are 84 to 95");
  EXPECT_ERROR(a.rewind(-1), ErrorCode::kRewindBound, "rewind to position -1");
  EXPECT_EQ(a.position(), 95);
  a.rewind(84);
  a.rewind(84);
  f.advance(a, 17);
  EXPECT_EQ(a.rewind_floor(), 85);
}

TEST(SequenceCache, RewindReachesZeroWhileTheRingHoldsEverything) {
  CacheFixture f;
  SequenceCache a = f.at(16);
  a.rewind(0);
  EXPECT_EQ(a.position(), 0);
  EXPECT_EQ(f.pool.blocks_in_use(), 0);
}

TEST(SequenceCache, WithoutSpareRowsNothingCanBeRewound) {
  CacheFixture f({.max_context = 2000, .max_slots = 1, .max_blocks = 20}, 0);
  SequenceCache a = f.at(5);
  EXPECT_ERROR(a.rewind(4), ErrorCode::kRewindBound, "rewind to position 4, possible are 5 to 5");
}

TEST(SequenceCache, ForkAndRestoreKeepTheRewindBound) {
  CacheFixture f;
  SequenceCache a = f.at(100);
  a.rewind(90);
  SequenceCache b = a.fork();
  EXPECT_EQ(b.rewind_floor(), 84);
  const Snapshot kept = a.snapshot();
  f.advance(a, 300);
  a.restore(kept);
  EXPECT_EQ(a.position(), 90);
  EXPECT_EQ(a.rewind_floor(), 84);
}

TEST(SequenceCache, SnapshotHoldsWhatTheSequenceDrops) {
  CacheFixture f;
  std::optional<SequenceCache> a(f.at(3 * kBlock));
  const Snapshot kept = a->snapshot();
  const std::vector<int32_t> blocks = ids(a->blocks());
  a.reset();
  EXPECT_EQ(f.pool.blocks_in_use(), 3);
  EXPECT_EQ(f.pool.slots_in_use(), 1);
  EXPECT_EQ(kept.position(), 3 * kBlock);

  SequenceCache b(f.pool);
  b.restore(kept);
  EXPECT_EQ(b.position(), 3 * kBlock);
  EXPECT_EQ(ids(b.blocks()), blocks);
  EXPECT_EQ(f.ops.slot_copies.back(), (FakeOps::Copy{kept.slot(), b.slot()}));
}

TEST(SequenceCache, RestoreGoesBackFartherThanTheRing) {
  CacheFixture f;
  SequenceCache a = f.at(50);
  const Snapshot kept = a.snapshot();
  f.advance(a, 1000);
  a.restore(kept);
  EXPECT_EQ(a.position(), 50);
  EXPECT_EQ(f.pool.blocks_in_use(), 1);
  a.restore(kept);
  EXPECT_EQ(a.position(), 50);
}

TEST(SequenceCache, RestoreRefusesASnapshotOfAnotherPool) {
  CacheFixture f;
  CacheFixture other;
  const SequenceCache theirs = other.at(12);
  const Snapshot kept = theirs.snapshot();
  SequenceCache ours = f.at(3);
  EXPECT_ERROR(ours.restore(kept), ErrorCode::kSnapshotMismatch,
               "the snapshot at position 12 belongs to another cache");
  EXPECT_EQ(ours.position(), 3);
  EXPECT_FALSE(ours.poisoned());
}

TEST(SequenceCache, AFailedRestorePoisonsButKeepsTheBooks) {
  CacheFixture f;
  SequenceCache a = f.at(5);
  const Snapshot kept = a.snapshot();
  f.advance(a, kBlock);
  f.ops.fail_copies = true;
  EXPECT_ERROR(a.restore(kept), ErrorCode::kDevice, "fake: copy failed");
  EXPECT_TRUE(a.poisoned());
  f.ops.fail_copies = false;
  a.restore(kept);
  EXPECT_FALSE(a.poisoned());
  EXPECT_EQ(a.position(), 5);
}

TEST(SequenceCache, AFailedForkTakesNothing) {
  CacheFixture f;
  SequenceCache a = f.at(5);
  const size_t bytes = f.pool.bytes_in_use();
  f.ops.fail_copies = true;
  EXPECT_ERROR((void)a.fork(), ErrorCode::kDevice, "fake: copy failed");
  EXPECT_EQ(f.pool.bytes_in_use(), bytes);
  f.ops.fail_copies = false;
  f.advance(a, 1);
  EXPECT_TRUE(f.ops.block_copies.empty()) << "nobody else holds the block";
}

TEST(SequenceCache, ResetForgetsEverything) {
  CacheFixture f;
  SequenceCache a = f.at(300);
  a.reset();
  EXPECT_EQ(a.position(), 0);
  EXPECT_EQ(a.rewind_floor(), 0);
  EXPECT_EQ(f.pool.blocks_in_use(), 0);
  EXPECT_EQ(f.pool.slots_in_use(), 1);
  f.advance(a, 3);
  a.rewind(0);
}

TEST(SequenceCache, PoisonBlocksAllButResetAndRestore) {
  CacheFixture f;
  SequenceCache a = f.at(20);
  const Snapshot kept = a.snapshot();
  f.fail(a);
  ASSERT_TRUE(a.poisoned());
  constexpr auto kText = "a step of this sequence failed";
  EXPECT_ERROR(a.rewind(20), ErrorCode::kPoisoned, kText);
  EXPECT_ERROR((void)a.fork(), ErrorCode::kPoisoned, kText);
  EXPECT_ERROR((void)a.snapshot(), ErrorCode::kPoisoned, kText);
  StepTransaction step(f.pool);
  EXPECT_ERROR(step.add(a, 1), ErrorCode::kPoisoned, kText);

  a.restore(kept);
  EXPECT_EQ(a.position(), 20);
  f.fail(a);
  a.reset();
  EXPECT_FALSE(a.poisoned());
  f.advance(a, 1);
}

TEST(SequenceCache, MovesCarryTheStateAndLeaveNothing) {
  CacheFixture f;
  SequenceCache a = f.at(kBlock + 1);
  const int slot = a.slot();
  SequenceCache b(std::move(a));
  EXPECT_EQ(b.position(), kBlock + 1);
  EXPECT_EQ(b.slot(), slot);
  EXPECT_EQ(f.pool.slots_in_use(), 1);
  EXPECT_EQ(f.pool.blocks_in_use(), 2);

  SequenceCache c = f.at(3 * kBlock);
  c = std::move(b);
  EXPECT_EQ(c.position(), kBlock + 1);
  EXPECT_EQ(c.slot(), slot);
  EXPECT_EQ(f.pool.slots_in_use(), 1) << "what the target held is given back at once";
  EXPECT_EQ(f.pool.blocks_in_use(), 2);

  a = std::move(c);
  f.advance(a, 1);
  EXPECT_EQ(a.position(), kBlock + 2);

  Snapshot kept = a.snapshot();
  const Snapshot moved = std::move(kept);
  EXPECT_EQ(moved.position(), kBlock + 2);
  EXPECT_EQ(f.pool.slots_in_use(), 2);
}

TEST(SequenceCacheDeathTest, AMovedFromSequenceIsNotUsed) {
  CacheFixture f;
  SequenceCache a = f.at(1);
  const SequenceCache b = std::move(a);
  EXPECT_DEATH((void)a.plan(1), "use of a moved-from sequence");  // NOLINT(bugprone-use-after-move): the point
}

}  // namespace
}  // namespace fathom
