// Everything that touches the cache, step after step on both backends: queries and rows, compressors, indexer,
// attention, and the bytes that are left behind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/pair.h"

namespace fathom {
namespace {

using test::BothMats;
using test::BothWeights;
using test::expect_below;
using test::flash_like;
using test::Pair;
using test::RandomWeight;

struct Sequence {
  int slot;
  std::vector<int32_t> blocks;
  int position = 0;
};

class Attention {
 public:
  Attention(const ModelConfig& config, CacheOptions options, std::string what)
      : config_(config), what_(std::move(what)), pair_(config, 640, options) {
    pair_.reference->reserve_cache(2, 16);
    pair_.cuda->reserve_cache(2, 16);
    sequences_ = {{.slot = 1, .blocks = {3, 0, 5, 2, 9, 11, 12, 15}},
                  {.slot = 0, .blocks = {1, 4, 6, 7, 8, 10, 13, 14}}};
    const auto vector = [&](const char* name, int rows, int n, uint64_t seed) {
      data_.push_back(std::make_unique<RandomWeight>(name, DType::kF32, rows, n, 1, seed));
      return pair_.upload(data_.back()->weight(), WeightRole::kVector);
    };
    kv_norm_ = vector("kv_norm", 1, config.head_dim, 61);
    sinks_ = vector("sinks", 1, config.n_heads, 62);
    for (const int ratio : {4, 128}) {
      const int width = compressor_roles(ratio) * config.head_dim;
      const BothWeights ape = vector("ape", ratio, width, 63);
      const BothWeights norm = vector("norm", 1, config.head_dim, 64);
      compressor_[ratio == 128] = {{{}, {}, ape.reference, norm.reference}, {{}, {}, ape.cuda, norm.cuda}};
    }
    const BothWeights ape = vector("index_ape", 4, 2 * config.index_dim, 65);
    const BothWeights norm = vector("index_norm", 1, config.index_dim, 66);
    index_ = {{{}, {}, ape.reference, norm.reference}, {{}, {}, ape.cuda, norm.cuda}};
  }

  // One step over all layers: n rows of the first sequence, m of the second.
  void step(int n, int m) {
    std::vector<SequenceSlice> slices;
    int rows = 0;
    for (const auto& [sequence, count] : {std::pair{&sequences_[0], n}, std::pair{&sequences_[1], m}}) {
      if (count > 0) {
        slices.push_back({sequence->slot, sequence->blocks, sequence->position, rows, count});
        rows += count;
      }
    }
    const std::vector<TokenId> tokens(static_cast<size_t>(rows));
    pair_.begin({tokens, slices, {}});
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      run_layer(layer, rows,
                fmt::format("{} L{} rows {}+{} at {}", what_, config_.ratio(layer), n, m, sequences_[0].position));
    }
    sequences_[0].position += n;
    sequences_[1].position += m;
  }

  void check_bytes() {
    const CacheLayout& layout = pair_.reference->cache_layout();
    std::vector<std::byte> a(layout.slot_bytes);
    std::vector<std::byte> b(layout.slot_bytes);
    pair_.reference->read_slot(1, a);
    pair_.cuda->read_slot(1, b);
    // Compressor states are floats; rows are mostly codes, of which a few may fall on the other side of a tie.
    size_t different = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      different += a[i] == b[i] ? 0 : 1;
    }
    expect_below(static_cast<double>(different) / static_cast<double>(a.size()), 0.2, what_ + " bytes of a slot");
    pair_.cuda->write_slot(0, b);
    std::vector<std::byte> c(layout.slot_bytes);
    pair_.cuda->read_slot(0, c);
    EXPECT_TRUE(b == c) << "a slot comes back as it was written";
    std::vector<std::byte> e(layout.block_bytes);
    std::vector<std::byte> f(layout.block_bytes);
    pair_.reference->read_block(3, e);
    pair_.cuda->read_block(3, f);
    different = 0;
    for (size_t i = 0; i < e.size(); ++i) {
      different += e[i] == f[i] ? 0 : 1;
    }
    const bool packed = layout.options.kv_type == KvType::kPacked;
    expect_below(static_cast<double>(different) / static_cast<double>(e.size()), packed ? 0.01 : 0.3,
                 what_ + " bytes of a block");
    pair_.cuda->write_block(4, f);
    std::vector<std::byte> g(layout.block_bytes);
    pair_.cuda->read_block(4, g);
    EXPECT_TRUE(f == g) << "a block comes back as it was written";
  }

 private:
  void run_layer(int layer, int rows, const std::string& what) {
    const int ratio = config_.ratio(layer);
    const int dim = config_.head_dim;
    const uint64_t seed = seed_ += 10;
    const BothMats q = pair_.random(rows, config_.n_heads * dim, seed, 3.0F);
    const BothMats kv = pair_.random(rows, dim, seed + 1);
    pair_.reference->norm_rope(layer, kv_norm_.reference, q.reference, kv.reference);
    pair_.cuda->norm_rope(layer, kv_norm_.cuda, q.cuda, kv.cuda);
    expect_below(pair_.relative_error(q), 2e-6, "norm_rope q " + what);
    expect_below(pair_.outliers(kv, 1e-6), 2e-3, "norm_rope kv outliers " + what);
    pair_.align(q);
    pair_.align(kv);

    DeviceMat<int32_t> selected_a;
    DeviceMat<int32_t> selected_b;
    if (ratio == 4) {
      const int heads = config_.index_heads;
      const BothMats ik = pair_.random(rows, 2 * config_.index_dim, seed + 2);
      const BothMats ig = pair_.random(rows, 2 * config_.index_dim, seed + 3);
      const BothMats iq = pair_.random(rows, heads * config_.index_dim, seed + 4);
      const BothMats iw = pair_.random(rows, heads, seed + 5);
      selected_a = pair_.reference->make_i32(rows, config_.index_topk);
      selected_b = pair_.cuda->make_i32(rows, config_.index_topk);
      pair_.reference->compress_index(layer, index_.a, ik.reference, ig.reference);
      pair_.cuda->compress_index(layer, index_.b, ik.cuda, ig.cuda);
      pair_.reference->select_entries(layer, iq.reference, iw.reference, selected_a);
      pair_.cuda->select_entries(layer, iq.cuda, iw.cuda, selected_b);
      expect_below(pair_.outliers(iq, 1e-6), 2e-3, "index q outliers " + what);
      const std::vector<int32_t> a = pair_.read(selected_a, false);
      const std::vector<int32_t> b = pair_.read(selected_b, true);
      disagreement_ = 1.0 - static_cast<double>(common_of(a, b)) / static_cast<double>(a.size());
      expect_below(disagreement_, 0.01, "selected entries that differ " + what);
    }
    if (ratio > 0) {
      const int width = compressor_roles(ratio) * dim;
      const BothMats ck = pair_.random(rows, width, seed + 6);
      const BothMats cg = pair_.random(rows, width, seed + 7);
      const auto& c = compressor_[ratio == 128];
      pair_.reference->compress(layer, c.a, ck.reference, cg.reference);
      pair_.cuda->compress(layer, c.b, ck.cuda, cg.cuda);
    }
    const BothMats context = pair_.make(rows, config_.n_heads * dim);
    pair_.reference->attend(layer, sinks_.reference, q.reference, kv.reference, selected_a, context.reference);
    pair_.cuda->attend(layer, sinks_.cuda, q.cuda, kv.cuda, selected_b, context.cuda);
    expect_below(pair_.relative_error(context), disagreement_ > 0.0 && ratio == 4 ? 5e-2 : 2e-3, "attend " + what);
  }

  [[nodiscard]] size_t common_of(const std::vector<int32_t>& a, const std::vector<int32_t>& b) const {
    const auto topk = static_cast<size_t>(config_.index_topk);
    size_t common = 0;
    for (size_t first = 0; first < a.size(); first += topk) {
      std::vector<int32_t> left(a.begin() + static_cast<std::ptrdiff_t>(first),
                                a.begin() + static_cast<std::ptrdiff_t>(first + topk));
      std::vector<int32_t> right(b.begin() + static_cast<std::ptrdiff_t>(first),
                                 b.begin() + static_cast<std::ptrdiff_t>(first + topk));
      std::sort(left.begin(), left.end());
      std::sort(right.begin(), right.end());
      std::vector<int32_t> both;
      std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
      common += both.size();
    }
    return common;
  }

  struct Both {
    CompressorWeights a;
    CompressorWeights b;
  };

  ModelConfig config_;
  std::string what_;
  Pair pair_;
  std::vector<std::unique_ptr<RandomWeight>> data_;
  std::vector<Sequence> sequences_;
  BothWeights kv_norm_;
  BothWeights sinks_;
  Both compressor_[2];
  Both index_;
  uint64_t seed_ = 1000;
  double disagreement_ = 0.0;
};

void run_steps(Attention& attention) {
  attention.step(1, 0);
  attention.step(130, 3);
  attention.step(1, 1);
  for (int i = 0; i < 5; ++i) {
    attention.step(1, 2);
  }
  attention.step(300, 129);
  attention.step(7, 1);
  attention.step(400, 0);
  attention.step(1, 1);
  attention.check_bytes();
}

TEST(CudaAttention, OddGeometry) {
  ModelConfig config = flash_like(64, 3);
  config.head_dim = 80;
  config.rope_dim = 12;
  config.index_heads = 5;
  config.index_dim = 32;
  config.index_topk = 24;
  config.window = 100;
  for (const bool simulated : {false, true}) {
    Attention attention(config, {.activation_sim = simulated}, simulated ? "odd sim f32" : "odd f32");
    run_steps(attention);
  }
  Attention attention(config, {.activation_sim = true, .kv_type = KvType::kPacked}, "odd sim packed");
  run_steps(attention);
}

TEST(CudaAttention, RealGeometry) {
  ModelConfig config = flash_like(64, 64);
  config.index_heads = 8;
  config.index_topk = 128;
  Attention attention(config, {.activation_sim = true, .kv_type = KvType::kPacked}, "real packed");
  attention.step(130, 3);
  attention.step(1, 1);
  attention.step(500, 0);
  attention.step(40, 9);
  attention.step(1, 1);
  attention.step(1, 0);
  attention.check_bytes();
}

}  // namespace
}  // namespace fathom
