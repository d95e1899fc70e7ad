#include "backend/cache_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

// The attention geometry of DeepSeek-V4 Flash.
ModelConfig flash() {
  ModelConfig c;
  c.n_layers = 43;
  c.head_dim = 512;
  c.rope_dim = 64;
  c.window = 128;
  c.index_dim = 128;
  c.context_length = 1048576;
  c.compress_ratios = {0, 0};
  while (c.compress_ratios.size() < 43) {
    c.compress_ratios.push_back(c.compress_ratios.size() % 2 == 0 ? 4 : 128);
  }
  return c;
}

ModelConfig awkward() {
  ModelConfig c;
  c.n_layers = 4;
  c.head_dim = 75;
  c.rope_dim = 6;
  c.window = 7;
  c.index_dim = 64;
  c.context_length = 1000;
  c.compress_ratios = {128, 4, 0, 4};
  return c;
}

struct Region {
  size_t begin = 0;
  size_t bytes = 0;
};

void expect_packed_tightly(const std::vector<Region>& regions, size_t total) {
  size_t end = 0;
  for (const Region& r : regions) {
    EXPECT_EQ(r.begin % 64, 0U);
    EXPECT_GE(r.begin, end) << "regions overlap";
    EXPECT_LT(r.begin, end + 64) << "more than alignment between regions";
    end = r.begin + r.bytes;
  }
  EXPECT_GE(total, end);
  EXPECT_LT(total, end + 64);
}

TEST(CacheLayout, RowBytes) {
  EXPECT_EQ(CacheLayout::make(flash(), {}).kv_row_bytes, 2048U);
  EXPECT_EQ(CacheLayout::make(flash(), {}).index_row_bytes, 512U);

  const CacheLayout packed = CacheLayout::make(flash(), {.kv_type = KvType::kPacked});
  EXPECT_EQ(packed.kv_row_bytes, 448U + 7U + 128U);
  EXPECT_EQ(packed.index_row_bytes, 64U + 4U);

  const CacheLayout odd = CacheLayout::make(awkward(), {.kv_type = KvType::kPacked});
  EXPECT_EQ(odd.kv_row_bytes, 69U + 2U + 12U);
  EXPECT_EQ(odd.index_row_bytes, 32U + 2U);
}

// Totals that docs/model.md derives for the real model, without Fathom's spare rows for rewinding.
TEST(CacheLayout, MatchesTheMemoryTableOfTheModel) {
  const CacheLayout packed = CacheLayout::make(flash(), {.kv_type = KvType::kPacked, .rewind_rows = 0});
  EXPECT_EQ(packed.slot_parts.window, 43U * 128U * 583U);
  EXPECT_EQ(packed.slot_parts.states, 1720320U + 10485760U);  // ratio 4 with the indexer's, ratio 128

  const CacheBytes at_128k = packed.bytes_for(131072, 1);
  EXPECT_EQ(at_128k.compressed, 131072U / 4 * 21U * 583U + 131072U / 128 * 20U * 583U);
  EXPECT_EQ(at_128k.index, 131072U / 4 * 21U * 68U);
  const double mib = static_cast<double>(at_128k.window + at_128k.compressed + at_128k.index) / (1 << 20);
  EXPECT_NEAR(mib, 441.7, 0.05);
}

TEST(CacheLayout, RegionsFollowEachOtherInLayerOrder) {
  for (const ModelConfig& config : {flash(), awkward()}) {
    for (const KvType type : {KvType::kF32, KvType::kPacked}) {
      const CacheLayout l = CacheLayout::make(config, {.kv_type = type, .block_tokens = 384, .rewind_rows = 5});
      const auto ring_rows = static_cast<size_t>(config.window + 5);
      ASSERT_EQ(l.layers.size(), config.compress_ratios.size());
      std::vector<Region> slot;
      std::vector<Region> block;
      for (size_t i = 0; i < l.layers.size(); ++i) {
        const LayerCache& layer = l.layers[i];
        ASSERT_EQ(layer.ratio, config.compress_ratios[i]);
        slot.push_back({layer.ring_offset, ring_rows * l.kv_row_bytes});
        if (layer.ratio > 0) {
          const auto rows = static_cast<size_t>(384 / layer.ratio);
          EXPECT_EQ(static_cast<size_t>(layer.rows_per_block), rows);
          slot.push_back({layer.state.offset, layer.state.bytes()});
          block.push_back({layer.kv_offset, rows * l.kv_row_bytes});
          if (layer.ratio == 4) {
            slot.push_back({layer.index_state.offset, layer.index_state.bytes()});
            block.push_back({layer.index_offset, rows * l.index_row_bytes});
          }
        }
      }
      expect_packed_tightly(slot, l.slot_bytes);
      expect_packed_tightly(block, l.block_bytes);
    }
  }
}

TEST(CacheLayout, RingsHaveRoomForRewinding) {
  const CacheLayout l = CacheLayout::make(awkward(), {.rewind_rows = 9});
  EXPECT_EQ(l.ring_rows, 7 + 9);
  EXPECT_EQ(l.layers[0].state.capacity, 128 + 9);
  EXPECT_EQ(l.layers[0].state.row_bytes(), 75U * 2 * 4);
  EXPECT_EQ(l.layers[1].state.capacity, 8 + 9);
  EXPECT_EQ(l.layers[1].state.row_bytes(), 75U * 2 * 2 * 4);
  EXPECT_EQ(l.layers[1].index_state.capacity, 8 + 9);
  EXPECT_EQ(l.layers[1].index_state.row_bytes(), 64U * 2 * 2 * 4);
  EXPECT_EQ(l.layers[2].state.capacity, 0);
}

TEST(CacheLayout, PartsAddUp) {
  const CacheLayout l = CacheLayout::make(awkward(), {.kv_type = KvType::kPacked, .rewind_rows = 3});
  EXPECT_EQ(l.slot_parts.total(), l.slot_bytes);
  EXPECT_EQ(l.block_parts.total(), l.block_bytes);
  EXPECT_EQ(l.slot_parts.compressed + l.slot_parts.index, 0U);
  EXPECT_EQ(l.block_parts.window + l.block_parts.states, 0U);

  EXPECT_EQ(l.bytes_for(0, 0).total(), 0U);
  EXPECT_EQ(l.bytes_for(0, 3).total(), 3 * l.slot_bytes);
  EXPECT_EQ(l.bytes_for(257, 3).total(), 3 * (l.slot_bytes + 2 * l.block_bytes));
  EXPECT_EQ(l.bytes_for(257, 3).states, 3 * l.slot_parts.states);
  EXPECT_EQ(l.bytes_for(257, 3).index, 3 * 2 * l.block_parts.index);
}

TEST(CacheLayout, BlocksFor) {
  const CacheLayout l = CacheLayout::make(flash(), {.block_tokens = 256});
  EXPECT_EQ(l.blocks_for(0), 0);
  EXPECT_EQ(l.blocks_for(1), 1);
  EXPECT_EQ(l.blocks_for(256), 1);
  EXPECT_EQ(l.blocks_for(257), 2);
  EXPECT_EQ(l.blocks_for(std::numeric_limits<int>::max()), 8388608);
}

TEST(CacheLayout, VisibleEntriesIncludeTheOneThatAQueryCompletes) {
  EXPECT_EQ(visible_entries(1000, 0), 0);
  EXPECT_EQ(visible_entries(2, 4), 0);
  EXPECT_EQ(visible_entries(3, 4), 1);
  EXPECT_EQ(visible_entries(7, 4), 2);
  EXPECT_EQ(visible_entries(126, 128), 0);
  EXPECT_EQ(visible_entries(127, 128), 1);
  EXPECT_EQ(visible_entries(255, 128), 2);
}

TEST(CacheLayout, RefusesContradictoryOptions) {
  const auto make = [](const CacheOptions& o) { (void)CacheLayout::make(flash(), o); };
  EXPECT_ERROR(make({.block_tokens = 0}), ErrorCode::kUnsupported,
               "block_tokens is 0, expected a positive multiple of 128");
  EXPECT_ERROR(make({.block_tokens = 200}), ErrorCode::kUnsupported,
               "block_tokens is 200, expected a positive multiple of 128");
  EXPECT_ERROR(make({.block_tokens = -128}), ErrorCode::kUnsupported, "block_tokens is -128");
  EXPECT_ERROR(make({.rewind_rows = -1}), ErrorCode::kUnsupported, "rewind_rows is -1, expected 0 or more");
  EXPECT_ERROR(make({.activation_sim = false, .kv_type = KvType::kPacked}), ErrorCode::kUnsupported,
               "packed rows lose nothing only with activation simulation on");
}

TEST(CacheLayout, RefusesGeometryItCannotHold) {
  const auto make = [](auto change) {
    ModelConfig c = awkward();
    change(c);
    (void)CacheLayout::make(c, {});
  };
  EXPECT_ERROR(make([](ModelConfig& c) { c.window = 0; }), ErrorCode::kUnsupported,
               "attention window is 0, expected at least 1");
  EXPECT_ERROR(make([](ModelConfig& c) { c.rope_dim = 75; }), ErrorCode::kUnsupported,
               "head_dim 75 must exceed rope_dim 75");
  EXPECT_ERROR(make([](ModelConfig& c) { c.compress_ratios.pop_back(); }), ErrorCode::kUnsupported,
               "3 compression ratios for 4 layers");
  EXPECT_ERROR(make([](ModelConfig& c) { c.compress_ratios[2] = 8; }), ErrorCode::kUnsupported,
               "layer 2 has compression ratio 8, expected 0, 4 or 128");
  EXPECT_ERROR(make([](ModelConfig& c) { c.index_dim = 96; }), ErrorCode::kUnsupported,
               "index_dim is 96, expected a power of two");
  EXPECT_ERROR(make([](ModelConfig& c) { c.index_dim = 0; }), ErrorCode::kUnsupported, "index_dim is 0");
}

TEST(CacheLayout, IndexDimMattersOnlyWhereThereIsAnIndexer) {
  ModelConfig c = awkward();
  c.compress_ratios = {0, 128, 0, 128};
  c.index_dim = 0;
  EXPECT_EQ(CacheLayout::make(c, {}).block_parts.index, 0U);
}

TEST(CacheLayout, RefusesSizesBeyondTheAddressSpace) {
  constexpr int kMax = std::numeric_limits<int>::max();
  ModelConfig c = awkward();
  EXPECT_ERROR((void)CacheLayout::make(c, {.rewind_rows = kMax}), ErrorCode::kUnsupported,
               "a ring of 7 + 2147483647 rows is too large");
  c.head_dim = kMax;
  EXPECT_ERROR((void)CacheLayout::make(c, {.rewind_rows = kMax - 1000}), ErrorCode::kUnsupported,
               "one slot or block exceeds the address space");
  const CacheLayout l = CacheLayout::make(c, {});
  EXPECT_ERROR((void)l.bytes_for(kMax, kMax), ErrorCode::kOutOfMemory,
               "2147483647 contexts of 2147483647 positions exceed the address space");
}

}  // namespace
}  // namespace fathom
