// Attention, indexer and compressors of the cpu backend: against the reference, and against itself, bit for bit, for
// any chunks, companions, number of threads and instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/reference/reference_ops.h"
#include "core/error.h"
#include "core/packed_rows.h"
#include "support/attention_twins.h"

namespace fathom {
namespace {

using test::AttentionBench;
using test::AttentionTwins;
using test::backend_options;
using test::kLayers;
using test::Shape;
using test::Step;
using test::Storage;

struct Case {
  std::string isa;
  Shape shape;
  Storage storage;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* isa : {"scalar", "avx2", "avx512", "amx"}) {
    for (const Shape& shape : test::kShapes) {
      for (const Storage& storage : test::kStorages) {
        all.push_back({isa, shape, storage});
      }
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& tested) {
  return fmt::format("{}_{}_{}", tested.param.isa, tested.param.shape.name, tested.param.storage.name);
}

constexpr int kBlocks = 5;

class CpuAttention : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      const auto ops = std::make_unique<cpu::CpuOps>(config_, options());
      ASSERT_EQ(ops->isa(), GetParam().isa);
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  [[nodiscard]] BackendOptions options(int threads = 2) const {
    return backend_options(GetParam().storage, GetParam().isa, threads);
  }
  [[nodiscard]] AttentionBench bench(int threads = 2) const {
    return {std::make_unique<cpu::CpuOps>(config_, options(threads)), config_, weights_, kBlocks};
  }
  [[nodiscard]] AttentionBench reference() const {
    return {std::make_unique<reference::ReferenceOps>(config_, options()), config_, weights_, kBlocks};
  }
  // Where attention runs on matrix units, with queries and weights in two parts of 8 bits.
  [[nodiscard]] bool in_tiles() const {
    return GetParam().isa == "amx" && config_.n_heads % 16 == 0 && GetParam().storage.kv_type == KvType::kPacked;
  }
  [[nodiscard]] bool simulated() const { return GetParam().storage.activation_sim; }

  ModelConfig config_ = test::make_config(GetParam().shape);
  test::AttentionWeights weights_{config_};
};

// Starts and ends inside blocks, steps longer than window and ring, rows of one sequence between those of others.
const Step kSteps[] = {{{0, 1}},           {{0, 130}, {1, 3}},         {{2, 0}, {0, 5}, {1, 1}, {2, 170}},
                       {{1, 1}, {0, 1}},   {{2, 1}, {1, 1}, {0, 1}},   {{0, 200}},
                       {{1, 64}, {0, 16}}, {{0, 1}, {2, 7}, {1, 128}}, {{0, 129}, {2, 1}}};

TEST_P(CpuAttention, AgreesWithTheReference) {
  AttentionBench got = bench();
  AttentionBench expected = reference();
  AttentionTwins twins(got, expected, config_, simulated(), in_tiles() ? 0x1p-17 : test::kEpsilon);
  for (const Step& step : kSteps) {
    ASSERT_NO_FATAL_FAILURE(twins.run(step));
    if (HasFailure()) {
      return;
    }
  }
  fmt::print(
      "{} values, {} of them one code apart; {} of {} selections differ; worst context {:.1e} of {:.1e} allowed\n",
      twins.values, twins.steps, twins.different_rows, twins.chosen_rows, twins.worst_context, twins.context_tolerance);
  EXPECT_LE(twins.steps, twins.values / 1000);
  EXPECT_LE(twins.different_rows, twins.chosen_rows / 100);  // two scores closer than float32 tells apart
}

// --- Invariance ----------------------------------------------------------------------------------------------------

// Everything that the ops made of a row, by sequence and position.
using Results = std::map<std::pair<int, int>, std::vector<float>>;

Results run_all(AttentionBench bench, const std::vector<Step>& steps) {
  Results results;
  for (const Step& step : steps) {
    bench.begin(step);
    for (int layer = 0; layer < kLayers; ++layer) {
      bench.run_layer(layer);
      const std::vector<float> context = bench.read(bench.context);
      const std::vector<int32_t> selected = bench.read(bench.selected);
      for (const SequenceSlice& slice : bench.slices()) {
        for (int i = 0; i < slice.n_rows; ++i) {
          std::vector<float>& row = results[{slice.slot, slice.start + i}];
          const auto at = static_cast<ptrdiff_t>(slice.first_row + i);
          row.insert(row.end(), context.begin() + at * bench.context.cols(),
                     context.begin() + (at + 1) * bench.context.cols());
          if (layer == 1) {
            row.insert(row.end(), selected.begin() + at * bench.selected.cols(),
                       selected.begin() + (at + 1) * bench.selected.cols());
          }
        }
      }
    }
    bench.end();
  }
  return results;
}

void expect_same(const Results& got, const Results& expected, const std::string& what) {
  for (const auto& [key, row] : got) {
    const auto& other = expected.at(key);
    ASSERT_EQ(row.size(), other.size());
    ASSERT_EQ(std::memcmp(row.data(), other.data(), row.size() * sizeof(float)), 0)
        << what << ": sequence " << key.first << ", position " << key.second;
  }
}

TEST_P(CpuAttention, ChunksCompanionsAndThreadsChangeNoBit) {
  constexpr int kTokens = 300;
  const Results whole = run_all(bench(1), {{{0, kTokens}}});
  for (const int threads : {2, 3, 8}) {
    expect_same(run_all(bench(threads), {{{0, kTokens}}}), whole, fmt::format("{} threads", threads));
  }
  for (const int chunk : {1, 7, 128}) {
    std::vector<Step> steps;
    for (int done = 0; done < kTokens; done += chunk) {
      steps.push_back({{1, 1}, {0, std::min(chunk, kTokens - done)}, {2, done % 2}});
    }
    Results got = run_all(bench(chunk == 7 ? 8 : 2), steps);
    std::erase_if(got, [](const auto& item) { return item.first.first != 0; });
    ASSERT_EQ(got.size(), whole.size());
    expect_same(got, whole, fmt::format("chunks of {}", chunk));
  }
}

TEST_P(CpuAttention, EveryInstructionSetGivesTheSameBits) {
  if (in_tiles()) {
    GTEST_SKIP() << "matrix units round in their own way";
  }
  const std::vector<Step> steps(std::begin(kSteps), std::begin(kSteps) + 6);
  const Results expected =
      run_all({std::make_unique<cpu::CpuOps>(config_, backend_options(GetParam().storage, "scalar", 2)), config_,
               weights_, kBlocks},
              steps);
  expect_same(run_all(bench(), steps), expected, GetParam().isa);
}

// --- Long context --------------------------------------------------------------------------------------------------

// Fills what a context of many tokens would have left: entries that repeat, so that scores tie, and a window.
void write_past(AttentionBench& bench, int n_distinct) {
  const CacheLayout& layout = bench.ops->cache_layout();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::byte* rows, int n, size_t row_bytes, bool index) {
    std::vector<float> row(static_cast<size_t>(index ? layout.index_dim : layout.head_dim));
    for (int r = 0; r < n; ++r) {
      std::generate(row.begin(), row.end(), [&] { return normal(random); });
      const std::span<std::byte> out(rows + static_cast<size_t>(r) * row_bytes, row_bytes);
      if (index) {
        pack_index_row({layout.index_dim}, row, out);
      } else {
        pack_kv_row({layout.head_dim - layout.rope_dim, layout.rope_dim}, row, out);
      }
    }
  };
  std::vector<std::byte> slot(layout.slot_bytes);
  std::vector<std::byte> block(layout.block_bytes);
  for (const LayerCache& layer : layout.layers) {
    fill(slot.data() + layer.ring_offset, layout.ring_rows, layout.kv_row_bytes, false);
  }
  bench.ops->write_slot(0, slot);
  for (int b = 0; b < n_distinct; ++b) {
    for (const LayerCache& layer : layout.layers) {
      fill(block.data() + layer.kv_offset, layer.rows_per_block, layout.kv_row_bytes, false);
      if (layer.ratio == 4) {
        fill(block.data() + layer.index_offset, layer.rows_per_block, layout.index_row_bytes, true);
      }
    }
    bench.ops->write_block(b, block);
  }
}

TEST(CpuAttentionAtDepth, AgreesWithTheReferenceAt64K) {
  constexpr int kStart = 65533;
  constexpr int kDistinct = 48;
  const ModelConfig config = test::make_config(test::kShapes[3]);
  const test::AttentionWeights weights(config);
  const auto at_depth = [&](std::unique_ptr<Ops> ops) {
    AttentionBench bench(std::move(ops), config, weights, kDistinct);
    bench.length[0] = kStart;
    bench.tables[0].clear();
    for (int b = 0; b < kStart / 128 + 2; ++b) {
      bench.tables[0].push_back(b % (kDistinct - 2));
    }
    // Blocks that the steps write into are not shared.
    bench.tables[0][kStart / 128] = kDistinct - 2;
    bench.tables[0][kStart / 128 + 1] = kDistinct - 1;
    write_past(bench, kDistinct);
    return bench;
  };
  for (const int threads : {1, 5}) {
    const BackendOptions options = backend_options(test::kStorages[2], "", threads);
    AttentionBench got = at_depth(std::make_unique<cpu::CpuOps>(config, options));
    AttentionBench expected = at_depth(std::make_unique<reference::ReferenceOps>(config, options));
    AttentionTwins twins(got, expected, config, true);
    twins.run({{0, 1}});
    twins.run({{0, 7}});
    EXPECT_EQ(twins.different_rows, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuAttention, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace fathom
