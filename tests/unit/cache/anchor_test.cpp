#include "cache/anchor.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cache/anchor_image.h"
#include "cache_fixture.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

std::vector<TokenId> random_tokens(std::mt19937& random, int n) {
  std::vector<TokenId> tokens(static_cast<size_t>(n));
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % 1000);
  }
  return tokens;
}

// Runs `tokens` from the sequence's position on and compares what every row sees.
void run_and_compare(CacheFixture& f, SequenceCache& sequence, const std::vector<TokenId>& tokens) {
  const int start = sequence.position();
  StepTransaction step(f.pool);
  step.add(sequence, static_cast<int>(tokens.size()) - start);
  step.begin();
  const std::vector<uint64_t> outputs =
      run_toy_step(f.ops, step.slices(), std::span(tokens).subspan(static_cast<size_t>(start)));
  step.commit();
  ASSERT_EQ(outputs, expected_outputs(f.pool.layout(), tokens, start));
}

TEST(Anchor, AnySequenceGoesOnFromItAsIfItHadComeThatWay) {
  std::mt19937 random(7);
  CacheFixture f;
  for (const int length : {1, 3, 4, 5, 127, 128, 129, 130, 131, 132, 200, 255, 256, 257, 300, 511, 512, 600}) {
    for (int back = 0; back <= std::min(16, length - 1); ++back) {
      SCOPED_TRACE(testing::Message() << "position " << length - back << " of " << length);
      const std::vector<TokenId> tokens = random_tokens(random, length);
      SequenceCache first(f.pool);
      run_and_compare(f, first, tokens);
      const Anchor anchor = first.freeze(length - back);
      first.reset();

      SequenceCache second = f.at(77);  // its rows are not the anchor's
      second.resume(anchor);
      ASSERT_EQ(second.position(), length - back);
      std::vector<TokenId> other(tokens.begin(), tokens.end() - back);
      const std::vector<TokenId> more = random_tokens(random, 140);
      other.insert(other.end(), more.begin(), more.end());
      run_and_compare(f, second, other);
    }
  }
}

TEST(Anchor, CannotBeTakenWhereTheRingsNoLongerReach) {
  CacheFixture f;
  SequenceCache sequence = f.at(100);
  EXPECT_ERROR(static_cast<void>(sequence.freeze(83)), ErrorCode::kRewindBound,
               "anchor at position 83, possible are 84 to 100");
  EXPECT_ERROR(static_cast<void>(sequence.freeze(101)), ErrorCode::kRewindBound,
               "anchor at position 101, possible are 84 to 100");
  f.fail(sequence);
  EXPECT_ERROR(static_cast<void>(sequence.freeze(100)), ErrorCode::kPoisoned, "reset it or restore a snapshot");
}

TEST(Anchor, ASequenceCannotStepBackBehindIt) {
  CacheFixture f;
  const Anchor anchor = f.at(100).freeze(90);
  SequenceCache sequence(f.pool);
  f.fail(sequence);
  sequence.resume(anchor);  // poison is gone
  f.advance(sequence, 3);
  EXPECT_EQ(sequence.rewind_floor(), 90);
  EXPECT_EQ(sequence.fork().rewind_floor(), 90);
  EXPECT_EQ(sequence.snapshot().position(), 93);
  EXPECT_ERROR(sequence.rewind(89), ErrorCode::kRewindBound, "rewind to position 89, possible are 90 to 93");
  sequence.reset();
  EXPECT_EQ(sequence.rewind_floor(), 0);
}

TEST(Anchor, SharesBlocksAndTakesNoSlot) {
  CacheFixture f;
  {
    SequenceCache sequence = f.at(2 * kBlock + 5);
    const Anchor anchor = sequence.freeze(2 * kBlock - 3);
    EXPECT_EQ(anchor.blocks().size(), 2);
    EXPECT_EQ(anchor.blocks().unshared(), 0);
    EXPECT_EQ(f.pool.blocks_in_use(), 3);
    EXPECT_EQ(f.pool.slots_in_use(), 1);
    sequence.reset();
    EXPECT_EQ(anchor.blocks().unshared(), 2);
    EXPECT_EQ(f.pool.blocks_in_use(), 2);
  }
  EXPECT_EQ(f.pool.bytes_in_use(), 0U);
}

TEST(AnchorImage, HoldsTheWindowAndWhatIsNotYetPooled) {
  const CacheLayout layout = toy_layout(16, 4096);
  const auto expected = [&](int position) {
    size_t bytes = 0;
    for (const LayerCache& layer : layout.layers) {
      bytes += static_cast<size_t>(std::min(position, layout.window - 1)) * layout.kv_row_bytes;
      const int open = layer.ratio == 0 ? 0 : position % layer.ratio;
      if (layer.ratio == 128) {
        bytes += static_cast<size_t>(open) * layer.state.row_bytes();
      } else if (layer.ratio == 4) {
        const int rows = std::min(position, 4 + open);
        bytes += static_cast<size_t>(rows) * (layer.state.row_bytes() + layer.index_state.row_bytes());
      }
    }
    return bytes;
  };
  for (const int position : {0, 1, 3, 4, 7, 8, 90, 127, 128, 130, 255, 256, 1000}) {
    EXPECT_EQ(anchor_image_bytes(layout, position), expected(position)) << position;
  }
  EXPECT_LT(anchor_image_bytes(layout, 256), anchor_image_bytes(layout, 255) / 2) << "small at whole blocks";
}

}  // namespace
}  // namespace fathom
