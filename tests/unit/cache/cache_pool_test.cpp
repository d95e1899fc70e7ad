#include "cache/cache_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "cache_fixture.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

using Reservations = std::vector<FakeOps::Reservation>;

TEST(CachePool, RefusesImpossibleLimits) {
  FakeOps ops(CacheLayout::make(toy_config(), {}));
  const auto make = [&](const CacheLimits& limits) { CachePool pool(ops, limits); };
  EXPECT_ERROR(make({.max_context = 0, .max_slots = 1, .max_blocks = 1}), ErrorCode::kBadRequest,
               "max_context is 0, expected at least 1");
  EXPECT_ERROR(make({.max_context = 1, .max_slots = -1, .max_blocks = 1}), ErrorCode::kBadRequest,
               "max_slots is -1, expected at least 1");
  EXPECT_ERROR(make({.max_context = 1, .max_slots = 1, .max_blocks = 0}), ErrorCode::kBadRequest,
               "max_blocks is 0, expected at least 1");
  EXPECT_ERROR(make({.max_context = 4097, .max_slots = 1, .max_blocks = 1}), ErrorCode::kContextBound,
               "a context of 4097 positions exceeds the model's 4096");
}

TEST(CachePool, ReservesOnlyWhatIsUsed) {
  CacheFixture f;
  EXPECT_TRUE(f.ops.reservations.empty());
  const SequenceCache sequence(f.pool);
  EXPECT_EQ(f.ops.reservations, (Reservations{{1, 0}}));
}

TEST(CachePool, SlotsGrowByDoublingUpToTheLimit) {
  CacheFixture f({.max_context = 2000, .max_slots = 5, .max_blocks = 7});
  std::vector<SequenceCache> sequences;
  for (int i = 0; i < 5; ++i) {
    sequences.emplace_back(f.pool);
  }
  EXPECT_EQ(f.ops.reservations, (Reservations{{1, 0}, {2, 0}, {4, 0}, {5, 0}}));
}

// Backends touch what they reserve: a long sequence takes little more than its rows need.
TEST(CachePool, BlocksGrowBySixtyFourthsUpToTheLimit) {
  constexpr int kBlocks = 4000;
  CacheFixture f({.max_context = 1 << 20, .max_slots = 1, .max_blocks = kBlocks}, 16, 1 << 20);
  SequenceCache sequence(f.pool);
  for (int i = 1; i <= kBlocks; ++i) {
    f.advance(sequence, kBlock);
    ASSERT_LE(f.ops.reservations.back().blocks, std::max(i + 8, i + i / 64));
  }
  EXPECT_EQ(f.ops.reservations.back(), (FakeOps::Reservation{1, kBlocks}));
  EXPECT_LT(f.ops.reservations.size(), 350U);
  EXPECT_TRUE(f.ops.block_copies.empty() && f.ops.slot_copies.empty()) << "growing copies nothing";
}

TEST(CachePool, GrowsAtOnceToWhatOneStepNeeds) {
  CacheFixture f;
  SequenceCache sequence(f.pool);
  f.advance(sequence, 9 * kBlock + 1);
  EXPECT_EQ(f.ops.reservations, (Reservations{{1, 0}, {1, 10}}));
}

TEST(CachePool, CountsBytes) {
  CacheFixture f;
  const CacheLayout& layout = f.pool.layout();
  EXPECT_EQ(f.pool.bytes_in_use(), 0U);
  {
    const SequenceCache a = f.at(kBlock + 1);
    EXPECT_EQ(f.pool.bytes_in_use(), layout.bytes_for(kBlock + 1, 1).total());
    const SequenceCache b = f.at(1);
    EXPECT_EQ(f.pool.bytes_in_use(), 2 * layout.slot_bytes + 3 * layout.block_bytes);
    const SequenceCache c = a.fork();
    EXPECT_EQ(f.pool.bytes_in_use(), 3 * layout.slot_bytes + 3 * layout.block_bytes);
    EXPECT_EQ(f.pool.slots_in_use(), 3);
    EXPECT_EQ(f.pool.blocks_in_use(), 3);
    EXPECT_EQ(f.pool.blocks_free(), 97);
  }
  EXPECT_EQ(f.pool.bytes_in_use(), 0U);
  EXPECT_EQ(f.pool.blocks_free(), 100);
}

TEST(CachePool, ReusesWhatWasGivenBack) {
  CacheFixture f;
  { const SequenceCache a = f.at(4 * kBlock); }
  f.ops.reservations.clear();
  const SequenceCache b = f.at(4 * kBlock);
  EXPECT_TRUE(f.ops.reservations.empty());
}

TEST(CachePool, RefusesOneSlotTooMany) {
  CacheFixture f({.max_context = 2000, .max_slots = 2, .max_blocks = 1});
  const SequenceCache a(f.pool);
  std::optional<SequenceCache> b(f.pool);
  EXPECT_ERROR(SequenceCache(f.pool), ErrorCode::kCacheFull, "all 2 slots are in use");
  EXPECT_ERROR((void)a.snapshot(), ErrorCode::kCacheFull, "all 2 slots are in use");
  b.reset();
  EXPECT_NO_THROW((void)a.snapshot());
}

TEST(CachePool, RefusesOneBlockTooMany) {
  CacheFixture f({.max_context = 2000, .max_slots = 2, .max_blocks = 4});
  SequenceCache a = f.at(3 * kBlock);
  EXPECT_ERROR(f.advance(a, kBlock + 1), ErrorCode::kCacheFull, "2 more blocks needed, but 3 of 4 are in use");
  EXPECT_EQ(f.pool.blocks_in_use(), 3);
  f.advance(a, kBlock);
  EXPECT_EQ(f.pool.blocks_free(), 0);
}

TEST(CachePool, SurvivesABackendWithoutMemory) {
  CacheFixture f;
  f.ops.fail_reserve = true;
  EXPECT_ERROR(SequenceCache(f.pool), ErrorCode::kOutOfMemory, "fake: no memory");
  EXPECT_EQ(f.pool.bytes_in_use(), 0U);
  f.ops.fail_reserve = false;
  SequenceCache sequence(f.pool);

  f.ops.fail_reserve = true;
  EXPECT_ERROR(f.advance(sequence, 1), ErrorCode::kOutOfMemory, "fake: no memory");
  EXPECT_EQ(f.pool.blocks_in_use(), 0);
  f.ops.fail_reserve = false;
  f.advance(sequence, 1);
  EXPECT_EQ(sequence.position(), 1);
}

TEST(CachePoolDeathTest, OutlivesItsSequences) {
  FakeOps ops(CacheLayout::make(toy_config(), {}));
  EXPECT_DEATH(
      {
        std::optional<CachePool> pool(std::in_place, ops,
                                      CacheLimits{.max_context = 1, .max_slots = 1, .max_blocks = 1});
        const SequenceCache sequence(*pool);
        pool.reset();
      },
      "a sequence or snapshot outlives its cache pool");
}

}  // namespace
}  // namespace fathom
