#include "cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <list>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "cache/anchor_image.h"
#include "cache_fixture.h"

namespace fathom {
namespace {

using Tokens = std::vector<TokenId>;

constexpr size_t kPlenty = size_t{1} << 30;

// 0, 1, 2, ... from `salt` on.
Tokens counting(int n, int salt = 0) {
  Tokens tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), salt);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Kept {
  explicit Kept(size_t budget, const CacheLimits& limits = {.max_context = 2000, .max_slots = 8, .max_blocks = 100})
      : f(limits), prefixes(f.pool, budget) {}

  // As if a sequence of `tokens` had been computed and had left anchors there.
  void compute(const Tokens& tokens, std::initializer_list<int> anchors) {
    SequenceCache sequence(f.pool);
    for (const int position : anchors) {
      f.advance(sequence, position - sequence.position());
      prefixes.keep(std::span(tokens).first(static_cast<size_t>(position)), sequence);
    }
  }

  CacheFixture f;
  PrefixCache prefixes;
};

TEST(PrefixCache, GoesOnFromTheDeepestAnchorThatLeavesATokenToCompute) {
  Kept k(kPlenty);
  k.compute(counting(600), {200, 400, 600});
  SequenceCache sequence(k.f.pool);

  PrefixMatch match = k.prefixes.resume(counting(600), sequence);
  EXPECT_EQ(match.cached, 400) << "the last token is computed again for its logits";
  EXPECT_EQ(match.matched, 600);
  EXPECT_EQ(sequence.position(), 400);

  match = k.prefixes.resume(counting(700), sequence);
  EXPECT_EQ(match.cached, 600);
  EXPECT_EQ(match.instead, std::nullopt) << "what was stored ends here";

  match = k.prefixes.match(joined(counting(350), {7, 7, 7}));
  EXPECT_EQ(match.cached, 200);
  EXPECT_EQ(match.matched, 350);
  EXPECT_EQ(match.instead, 350);

  SequenceCache stranger(k.f.pool);
  EXPECT_EQ(k.prefixes.resume({{5000, 1}}, stranger).cached, 0);
  EXPECT_EQ(stranger.position(), 0);
  EXPECT_EQ(k.prefixes.stats().hits, 2U);
  EXPECT_EQ(k.prefixes.stats().misses, 1U);
  EXPECT_EQ(k.prefixes.stats().cached_tokens, 1000U);
}

TEST(PrefixCache, CountsEveryByteOnce) {
  Kept k(kPlenty);
  const CacheLayout& layout = k.f.pool.layout();
  k.compute(counting(600), {256, 600});
  PrefixCacheStats stats = k.prefixes.stats();
  EXPECT_EQ(stats.anchors, 2);
  EXPECT_EQ(stats.blocks, 5) << "the first two are shared";
  EXPECT_EQ(stats.bytes, anchor_image_bytes(layout, 256) + anchor_image_bytes(layout, 600) + 5 * layout.block_bytes +
                             600 * sizeof(TokenId));
  EXPECT_EQ(k.f.pool.blocks_in_use(), 5);
  k.prefixes.clear();
  stats = k.prefixes.stats();
  EXPECT_EQ(stats.bytes, 0U);
  EXPECT_EQ(k.f.pool.bytes_in_use(), 0U);
  EXPECT_EQ(stats.evictions, 2U);
}

TEST(PrefixCache, KeepsTheSameAnchorOnce) {
  Kept k(kPlenty);
  k.compute(counting(300), {300});
  const size_t bytes = k.prefixes.stats().bytes;
  k.compute(counting(300), {300});
  EXPECT_EQ(k.prefixes.stats().anchors, 1);
  EXPECT_EQ(k.prefixes.stats().bytes, bytes);
}

TEST(PrefixCache, LeavesASequenceAloneThatCannotBeFrozen) {
  Kept k(kPlenty);
  SequenceCache sequence = k.f.at(100);
  k.prefixes.keep(counting(50), sequence);   // the rings are past it
  k.prefixes.keep(counting(101), sequence);  // not computed yet
  k.prefixes.keep({}, sequence);
  k.f.fail(sequence);
  k.prefixes.keep(counting(100), sequence);
  EXPECT_EQ(k.prefixes.stats().anchors, 0);
}

TEST(PrefixCache, StaysWithinItsBudgetAndKeepsWhatWasUsedLast) {
  Kept probe(kPlenty);
  probe.compute(counting(300), {300});
  const size_t one = probe.prefixes.stats().bytes;

  Kept k(3 * one);
  for (int conversation = 0; conversation < 10; ++conversation) {
    k.compute(counting(300, 1000 * conversation), {300});
    ASSERT_LE(k.prefixes.stats().bytes, 3 * one);
    // The first one goes on all the time.
    SequenceCache sequence(k.f.pool);
    ASSERT_EQ(k.prefixes.resume(counting(301), sequence).cached, 300);
  }
  EXPECT_EQ(k.prefixes.stats().anchors, 3);
  EXPECT_EQ(k.prefixes.stats().evictions, 7U);
  EXPECT_EQ(k.prefixes.match(counting(301, 9000)).cached, 300) << "the newest";
  EXPECT_EQ(k.prefixes.match(counting(301, 1000)).cached, 0) << "an old one";
}

TEST(PrefixCache, DropsAnchorsInTheMiddleBeforeTheEndOfAConversation) {
  Kept probe(kPlenty);
  probe.compute(counting(900), {128, 256, 384, 512, 640, 768, 900});
  const size_t all = probe.prefixes.stats().bytes;

  Kept k(all - 1);
  k.compute(counting(900), {128, 256, 384, 512, 640, 768, 900});
  EXPECT_EQ(k.prefixes.match(counting(901)).cached, 900);
  EXPECT_EQ(k.prefixes.stats().evictions, 1U);
  EXPECT_EQ(k.prefixes.stats().blocks, 8) << "the rows are needed as long as the end is there";
}

TEST(PrefixCache, AnAnchorLargerThanTheBudgetIsNotKept) {
  Kept k(10);
  k.compute(counting(300), {300});
  EXPECT_EQ(k.prefixes.stats().anchors, 0);
  EXPECT_EQ(k.prefixes.stats().bytes, 0U);
}

TEST(PrefixCache, MakesRoomForLiveSequencesAndTakesNothingFromThem) {
  Kept k(kPlenty, {.max_context = 2000, .max_slots = 8, .max_blocks = 10});
  k.compute(counting(500), {500});
  k.compute(counting(500, 5000), {500});
  SequenceCache live(k.f.pool);
  ASSERT_EQ(k.prefixes.resume(counting(501), live).cached, 500);
  EXPECT_EQ(k.f.pool.blocks_free(), 2);

  EXPECT_TRUE(k.prefixes.make_room(5));
  EXPECT_EQ(k.f.pool.blocks_free(), 6);
  EXPECT_EQ(k.prefixes.match(counting(501)).cached, 500) << "its rows are in use: dropping it would free nothing";
  EXPECT_EQ(k.prefixes.match(counting(501, 5000)).cached, 0);

  EXPECT_FALSE(k.prefixes.make_room(7)) << "the live sequence keeps its four";
  EXPECT_EQ(k.prefixes.stats().anchors, 0);
  EXPECT_EQ(live.position(), 500);
  EXPECT_EQ(k.f.pool.blocks_in_use(), 4);
}

TEST(PrefixCache, MakesRoomWhenTheBackendHasNoMoreMemory) {
  Kept k(kPlenty);
  k.compute(counting(1000), {1000});
  EXPECT_EQ(k.f.pool.blocks_in_use(), 8);
  k.f.ops.fail_reserve = true;
  EXPECT_TRUE(k.prefixes.make_room(8)) << "those of the anchor serve again";
  EXPECT_EQ(k.prefixes.stats().anchors, 0);
  EXPECT_FALSE(k.prefixes.make_room(9));
}

TEST(PrefixCache, AMillionTokensTakeWhatThePlanSaysAndAreNeverCopied) {
  constexpr int kEnd = 1 << 20;
  CacheFixture f({.max_context = kEnd, .max_slots = 1, .max_blocks = 10000}, 16, kEnd);
  PrefixCache prefixes(f.pool, kPlenty);
  const Tokens tokens = counting(kEnd);
  SequenceCache sequence(f.pool);
  for (int end = 2048; end <= kEnd; end += 2048) {
    f.advance(sequence, end - sequence.position());
    prefixes.keep(std::span(tokens).first(static_cast<size_t>(end)), sequence);
  }
  EXPECT_TRUE(f.ops.block_copies.empty());
  EXPECT_TRUE(f.ops.slot_copies.empty());
  const CacheLayout& layout = f.pool.layout();
  const size_t planned = layout.bytes_for(kEnd, 1).total();
  const FakeOps::Reservation reserved = f.ops.reservations.back();
  EXPECT_LE(static_cast<double>(static_cast<size_t>(reserved.slots) * layout.slot_bytes +
                                static_cast<size_t>(reserved.blocks) * layout.block_bytes),
            1.02 * static_cast<double>(planned));
  EXPECT_EQ(f.pool.bytes_in_use(), planned);
  EXPECT_EQ(prefixes.stats().blocks, layout.blocks_for(kEnd)) << "anchors hold the sequence's own blocks";
  // An anchor inside a block costs one copy of that block, when the sequence goes on.
  sequence.rewind(kEnd - 10);
  prefixes.keep(std::span(tokens).first(kEnd - 10), sequence);
  f.advance(sequence, 10);
  EXPECT_EQ(f.ops.block_copies.size(), 1U);
}

// Books against what a plain list of anchors says, in a pool that is always too small.
TEST(PrefixCache, RandomUseBalancesTheBooks) {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Kept k(300000, {.max_context = 2000, .max_slots = 8, .max_blocks = 40});
  const CacheLayout& layout = k.f.pool.layout();
  std::list<std::pair<SequenceCache, Tokens>> live;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() < 3 && below(4) == 0) {
      live.emplace_back(SequenceCache(k.f.pool), Tokens{});
      Tokens tokens(static_cast<size_t>(1 + below(600)));
      std::generate(tokens.begin(), tokens.end(), [&] { return below(60) == 0 ? below(2) : 5; });
      tokens.resize(static_cast<size_t>(k.prefixes.resume(tokens, live.back().first).cached));
      live.back().second = tokens;
    } else if (!live.empty() && below(5) == 0) {
      live.pop_front();
    } else if (!live.empty()) {
      auto& [sequence, tokens] = live.back();
      const int n = std::min(1 + below(200), 2000 - sequence.position());
      if (n > 0 && k.prefixes.make_room(sequence.plan(n).blocks_acquired)) {
        k.f.advance(sequence, n);
        std::generate_n(std::back_inserter(tokens), n, [&] { return below(60) == 0 ? below(2) : 5; });
        k.prefixes.keep(tokens, sequence);
      }
    }
    ASSERT_LE(k.prefixes.stats().bytes, 300000U);
    ASSERT_EQ(k.f.pool.slots_in_use(), static_cast<int>(live.size()));
    ASSERT_LE(k.prefixes.stats().blocks, k.f.pool.blocks_in_use());
    ASSERT_GE(k.prefixes.stats().bytes, static_cast<size_t>(k.prefixes.stats().blocks) * layout.block_bytes);
  }
  EXPECT_GT(k.prefixes.stats().evictions, 100U);
  EXPECT_GT(k.prefixes.stats().hits, 40U);
  live.clear();
  EXPECT_EQ(k.f.pool.blocks_in_use(), k.prefixes.stats().blocks);
  k.prefixes.clear();
  EXPECT_EQ(k.f.pool.bytes_in_use(), 0U);
  EXPECT_EQ(k.prefixes.stats().bytes, 0U);
}

}  // namespace
}  // namespace fathom
