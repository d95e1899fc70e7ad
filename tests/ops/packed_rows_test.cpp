// Packed cache rows hold the same codes as float rows: only rotary dims lose precision (bfloat16).
#include "core/packed_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "backend/ops.h"
#include "support/owned_weight.h"

namespace fathom {
namespace {

using test::OwnedWeight;

ModelConfig config_with_indexer() {
  ModelConfig c;
  c.n_layers = 1;
  c.hidden = 64;
  c.vocab = 8;
  c.context_length = 1024;
  c.n_heads = 2;
  c.head_dim = 160;  // 128 coded dims in two groups, 32 rotary
  c.rope_dim = 32;
  c.q_lora_rank = 8;
  c.o_lora_rank = 8;
  c.o_groups = 1;
  c.window = 16;
  c.compress_ratios = {4};
  c.index_heads = 2;
  c.index_dim = 64;
  c.index_topk = 4;
  c.yarn = {.factor = 16.0F, .original_context = 64};
  c.n_experts = 4;
  c.n_experts_used = 2;
  c.expert_ffn = 8;
  c.swiglu_limit = {10.0F};
  c.shared_swiglu_limit = {10.0F};
  return c;
}

std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) {
    x = normal(random);
  }
  return v;
}

struct Rows {
  std::vector<float> kv;  // what attention will read of the step's own rows
  std::vector<float> entries;
  std::vector<float> keys;
};

// One step of 40 tokens through the ops that write rows.
Rows write_rows(KvType type) {
  constexpr int kTokens = 40;
  const ModelConfig config = config_with_indexer();
  const auto ops = make_ops(config, {.kind = BackendKind::kReference,
                                     .threads = 1,
                                     .max_rows = kTokens,
                                     .cache = {.kv_type = type, .block_tokens = 128}});
  ops->reserve_cache(1, 1);
  const std::vector<TokenId> tokens(kTokens);
  const std::vector<int32_t> blocks = {0};
  const SequenceSlice slice{.slot = 0, .blocks = blocks, .start = 0, .first_row = 0, .n_rows = kTokens};
  ops->begin_step({.tokens = tokens, .sequences = {&slice, 1}, .logit_rows = {}});
  const auto matrix = [&](int cols, unsigned seed) {
    const DeviceMat<float> m = ops->make_f32(kTokens, cols);
    const std::vector<float> v = random_values(static_cast<size_t>(kTokens) * static_cast<size_t>(cols), seed);
    std::copy(v.begin(), v.end(), m.device_ptr());
    return m;
  };
  const OwnedWeight kv_norm("kv_norm", 1, config.head_dim, random_values(160, 1));
  const OwnedWeight ape("ape", 4, 320, random_values(1280, 2));
  const OwnedWeight index_ape("index_ape", 4, 128, random_values(512, 3));
  const OwnedWeight index_norm("index_norm", 1, 64, random_values(64, 4));
  const auto upload = [&](const OwnedWeight& w) { return ops->upload(w.weight(), WeightRole::kVector); };

  const DeviceMat<float> kv = matrix(config.head_dim, 5);
  ops->norm_rope(0, upload(kv_norm), matrix(2 * config.head_dim, 6), kv);
  ops->compress(0, {.kv = {}, .gate = {}, .ape = upload(ape), .norm = upload(kv_norm)}, matrix(320, 7), matrix(320, 8));
  ops->compress_index(0, {.kv = {}, .gate = {}, .ape = upload(index_ape), .norm = upload(index_norm)}, matrix(128, 9),
                      matrix(128, 10));

  Rows rows;
  rows.kv.resize(static_cast<size_t>(kTokens) * 160);
  ops->read_f32(kv, {rows.kv.data(), kTokens, 160});
  const CacheLayout& layout = ops->cache_layout();
  std::vector<std::byte> block(layout.block_bytes);
  ops->read_block(0, block);
  rows.entries.resize(static_cast<size_t>(kTokens / 4) * 160);
  rows.keys.resize(static_cast<size_t>(kTokens / 4) * 64);
  for (size_t c = 0; c < kTokens / 4; ++c) {
    const std::span<const std::byte> entry(block.data() + layout.layers[0].kv_offset + c * layout.kv_row_bytes,
                                           layout.kv_row_bytes);
    const std::span<const std::byte> key(block.data() + layout.layers[0].index_offset + c * layout.index_row_bytes,
                                         layout.index_row_bytes);
    const std::span<float> entry_out(rows.entries.data() + c * 160, 160);
    const std::span<float> key_out(rows.keys.data() + c * 64, 64);
    if (type == KvType::kPacked) {
      unpack_kv_row({.nope = 128, .rope = 32}, entry, entry_out);
      unpack_index_row({.dims = 64}, key, key_out);
    } else {
      std::memcpy(entry_out.data(), entry.data(), entry.size());
      std::memcpy(key_out.data(), key.data(), key.size());
    }
  }
  return rows;
}

TEST(PackedRows, HoldTheCodesOfFloatRows) {
  const Rows floats = write_rows(KvType::kF32);
  const Rows packed = write_rows(KvType::kPacked);
  EXPECT_EQ(packed.keys, floats.keys);
  const auto compare = [](const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (i % 160 < 128) {
        ASSERT_EQ(a[i], b[i]) << "row " << i / 160 << ", dim " << i % 160;
      } else {
        ASSERT_NEAR(a[i], b[i], std::abs(b[i]) / 256.0F) << "row " << i / 160 << ", dim " << i % 160;
      }
    }
  };
  compare(packed.kv, floats.kv);
  compare(packed.entries, floats.entries);
}

}  // namespace
}  // namespace fathom
