// Attention, indexer and compressors of the cpu backend. Against the reference: both run the same steps on the same
// inputs, and after each op the reference's results replace the backend's, so that a rounding in one op is not judged
// as an error of the next. Against itself: bit for bit the same results for any chunks, companions, number of threads
// and instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/reference/reference_ops.h"
#include "core/error.h"
#include "core/packed_rows.h"
#include "support/owned_weight.h"

namespace fathom {
namespace {

using test::OwnedWeight;

constexpr int kMaxRows = 330;
constexpr int kLayers = 3;  // of ratio 0, 4 and 128
constexpr double kEpsilon = 0x1p-24;

struct Shape {
  const char* name;
  int heads, head_dim, rope_dim, window, index_heads, index_dim, topk;
};
constexpr Shape kShapes[] = {
    {"odd", 3, 74, 14, 37, 5, 32, 6},       // no dim fills a vector
    {"short", 2, 20, 4, 8, 17, 16, 3},      // index rows too short for codes
    {"real", 2, 512, 64, 128, 64, 128, 40}  // real widths, few heads
};

struct Storage {
  const char* name;
  bool activation_sim;
  KvType kv_type;
};
constexpr Storage kStorages[] = {
    {"plain", false, KvType::kF32}, {"simulated", true, KvType::kF32}, {"packed", true, KvType::kPacked}};

ModelConfig make_config(const Shape& s) {
  ModelConfig c;
  c.n_layers = kLayers;
  c.hidden = 100;
  c.vocab = 8;
  c.context_length = 1 << 20;
  c.n_heads = s.heads;
  c.head_dim = s.head_dim;
  c.rope_dim = s.rope_dim;
  c.q_lora_rank = 32;
  c.o_lora_rank = 8;
  c.o_groups = 1;
  c.window = s.window;
  c.compress_ratios = {0, 4, 128};
  c.index_heads = s.index_heads;
  c.index_dim = s.index_dim;
  c.index_topk = s.topk;
  c.yarn = {.factor = 16.0F, .original_context = 65536};
  c.n_experts = 19;
  c.n_experts_used = 4;
  c.expert_ffn = 32;
  c.routed_scale = 1.5F;
  c.swiglu_limit = {10, 10, 10};
  c.shared_swiglu_limit = {10, 10, 10};
  return c;
}

std::vector<float> random_values(size_t n, unsigned seed, float mean = 0.0F, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> v(n);
  std::generate(v.begin(), v.end(), [&] { return normal(random); });
  return v;
}

// Weights of one layer's ops, the same for every backend.
struct Weights {
  explicit Weights(const ModelConfig& c)
      : kv_norm(vector("kv_norm", c.head_dim, 1, 1.0F)),
        sinks(vector("sinks", c.n_heads, 2, 0.0F)),
        norm4(vector("norm4", c.head_dim, 3, 1.0F)),
        ape4(4, 2 * c.head_dim, 4),
        index_norm(vector("index_norm", c.index_dim, 5, 1.0F)),
        index_ape(4, 2 * c.index_dim, 6),
        norm128(vector("norm128", c.head_dim, 7, 1.0F)),
        ape128(128, c.head_dim, 8) {}

  static OwnedWeight vector(const char* name, int n, unsigned seed, float mean) {
    return {name, 1, n, random_values(static_cast<size_t>(n), seed, mean, 0.3F)};
  }
  struct Table {
    Table(int out, int in, unsigned seed)
        : weight("ape", out, in, random_values(static_cast<size_t>(out) * static_cast<size_t>(in), seed)) {}
    OwnedWeight weight;
  };

  OwnedWeight kv_norm, sinks, norm4;
  Table ape4;
  OwnedWeight index_norm;
  Table index_ape;
  OwnedWeight norm128;
  Table ape128;
};

// Rows of a step: how many of which sequence.
struct Part {
  int sequence;
  int n_rows;
};
using Step = std::vector<Part>;

// One backend with three sequences.
class Bench {
 public:
  Bench(std::unique_ptr<Ops> backend, const ModelConfig& config, const Weights& w, int n_blocks)
      : ops(std::move(backend)), config_(config) {
    const auto up = [&](const OwnedWeight& x) { return ops->upload(x.weight(), WeightRole::kVector); };
    kv_norm_ = up(w.kv_norm);
    sinks_ = up(w.sinks);
    comp_[1] = {.kv = {}, .gate = {}, .ape = up(w.ape4.weight), .norm = up(w.norm4)};
    comp_[2] = {.kv = {}, .gate = {}, .ape = up(w.ape128.weight), .norm = up(w.norm128)};
    index_ = {.kv = {}, .gate = {}, .ape = up(w.index_ape.weight), .norm = up(w.index_norm)};
    q = ops->make_f32(kMaxRows, config.n_heads * config.head_dim);
    kv = ops->make_f32(kMaxRows, config.head_dim);
    comp_kv = ops->make_f32(kMaxRows, 2 * config.head_dim);
    comp_gate = ops->make_f32(kMaxRows, 2 * config.head_dim);
    index_kv = ops->make_f32(kMaxRows, 2 * config.index_dim);
    index_gate = ops->make_f32(kMaxRows, 2 * config.index_dim);
    index_q = ops->make_f32(kMaxRows, config.index_heads * config.index_dim);
    index_weights = ops->make_f32(kMaxRows, config.index_heads);
    context = ops->make_f32(kMaxRows, config.n_heads * config.head_dim);
    selected = ops->make_i32(kMaxRows, config.index_topk);
    ops->reserve_cache(3, 3 * n_blocks);
    for (int s = 0; s < 3; ++s) {
      for (int b = 0; b < n_blocks; ++b) {
        tables_[s].push_back(s * n_blocks + b);
      }
    }
  }

  // Sets the rows of the step up; positions continue where the sequences are.
  void begin(const Step& step) {
    slices_.clear();
    int row = 0;
    for (const Part& part : step) {
      slices_.push_back({.slot = part.sequence,
                         .blocks = tables_[part.sequence],
                         .start = length[part.sequence],
                         .first_row = row,
                         .n_rows = part.n_rows});
      row += part.n_rows;
    }
    tokens_.assign(static_cast<size_t>(row), 0);
    rows = row;
    ops->begin_step({.tokens = tokens_, .sequences = slices_, .logit_rows = {}});
  }
  void end() {
    for (const SequenceSlice& slice : slices_) {
      length[slice.slot] += slice.n_rows;
    }
  }
  [[nodiscard]] const std::vector<SequenceSlice>& slices() const { return slices_; }

  // Inputs depend on nothing but the sequence, the position and the layer.
  void fill(int layer) {
    for (const SequenceSlice& slice : slices_) {
      for (int i = 0; i < slice.n_rows; ++i) {
        const auto seed = static_cast<unsigned>(((slice.slot * 100003 + slice.start + i) * kLayers + layer) * 8);
        const int r = slice.first_row + i;
        unsigned kind = 0;
        for (const DeviceMat<float>& m : {q, kv, comp_kv, comp_gate, index_kv, index_gate, index_q, index_weights}) {
          const std::vector<float> values = random_values(static_cast<size_t>(m.cols()), seed + kind++);
          std::copy(values.begin(), values.end(), m.device_ptr() + r * m.ld());
        }
      }
    }
  }

  [[nodiscard]] DeviceMat<float> cut(DeviceMat<float> m, int cols = 0) const {
    const DeviceMat<float> all = m.slice_rows(0, rows);
    return cols == 0 ? all : all.slice_cols(0, cols);
  }
  void norm_rope(int layer) { ops->norm_rope(layer, kv_norm_, cut(q), cut(kv)); }
  void compress(int layer) {
    const int cols = compressor_roles(config_.ratio(layer)) * config_.head_dim;
    ops->compress(layer, comp_[layer], cut(comp_kv, cols), cut(comp_gate, cols));
  }
  void compress_index(int layer) { ops->compress_index(layer, index_, cut(index_kv), cut(index_gate)); }
  void select(int layer) { ops->select_entries(layer, cut(index_q), cut(index_weights), selected.slice_rows(0, rows)); }
  void attend(int layer) {
    const bool indexed = config_.ratio(layer) == 4;
    ops->attend(layer, sinks_, cut(q), cut(kv), indexed ? selected.slice_rows(0, rows) : DeviceMat<int32_t>{},
                cut(context));
  }
  void run_layer(int layer) {
    fill(layer);
    norm_rope(layer);
    if (config_.ratio(layer) == 4) {
      compress_index(layer);
      select(layer);
    }
    if (config_.ratio(layer) > 0) {
      compress(layer);
    }
    attend(layer);
  }

  [[nodiscard]] std::vector<float> read(DeviceMat<const float> m) const {
    std::vector<float> out(static_cast<size_t>(rows) * static_cast<size_t>(m.cols()));
    ops->read_f32(m.slice_rows(0, rows), {out.data(), rows, m.cols()});
    return out;
  }
  [[nodiscard]] std::vector<int32_t> read(DeviceMat<const int32_t> m) const {
    std::vector<int32_t> out(static_cast<size_t>(rows) * static_cast<size_t>(m.cols()));
    ops->read_i32(m.slice_rows(0, rows), {out.data(), rows, m.cols()});
    return out;
  }
  [[nodiscard]] std::vector<std::byte> slot(int s) const {
    std::vector<std::byte> bytes(ops->cache_layout().slot_bytes);
    ops->read_slot(s, bytes);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> block(int b) const {
    std::vector<std::byte> bytes(ops->cache_layout().block_bytes);
    ops->read_block(b, bytes);
    return bytes;
  }

  std::unique_ptr<Ops> ops;
  int length[3] = {};
  int rows = 0;
  DeviceMat<float> q, kv, comp_kv, comp_gate, index_kv, index_gate, index_q, index_weights, context;
  DeviceMat<int32_t> selected;
  std::vector<int32_t> tables_[3];

 private:
  ModelConfig config_;
  Weight kv_norm_, sinks_;
  CompressorWeights comp_[kLayers], index_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
};

BackendOptions backend_options(const Storage& storage, const std::string& isa, int threads) {
  return {.kind = BackendKind::kCpu,
          .threads = threads,
          .isa = isa,
          .max_rows = kMaxRows,
          .cache = {.activation_sim = storage.activation_sim, .kv_type = storage.kv_type, .block_tokens = 128}};
}

struct Case {
  std::string isa;
  Shape shape;
  Storage storage;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* isa : {"scalar", "avx2", "avx512", "amx"}) {
    for (const Shape& shape : kShapes) {
      for (const Storage& storage : kStorages) {
        // amx has the kernels of avx512 for all but products.
        if (std::string(isa) != "amx" || shape.heads == 3) {
          all.push_back({isa, shape, storage});
        }
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
  [[nodiscard]] Bench bench(int threads = 2) const {
    return {std::make_unique<cpu::CpuOps>(config_, options(threads)), config_, weights_, kBlocks};
  }
  [[nodiscard]] Bench reference() const {
    return {std::make_unique<reference::ReferenceOps>(config_, options()), config_, weights_, kBlocks};
  }
  [[nodiscard]] bool simulated() const { return GetParam().storage.activation_sim; }

  ModelConfig config_ = make_config(GetParam().shape);
  Weights weights_{config_};
};

// Float values that went through the same quantiser may lie on two sides of an edge between two codes: then they differ
// by a step of E4M3 or E2M1, in a few places only.
struct Comparison {
  double worst = 0.0;  // of those within `tolerance`
  int steps = 0;       // one code apart
  int wrong = 0;
};
Comparison compare(const std::vector<float>& got, const std::vector<float>& expected, double tolerance,
                   double code_step) {
  Comparison c;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
    if (difference <= tolerance * std::max(1.0, std::abs(static_cast<double>(expected[i])))) {
      c.worst = std::max(c.worst, difference);
    } else if (difference <= code_step * std::max(std::abs(static_cast<double>(expected[i])), 0.05)) {
      ++c.steps;
    } else {
      ++c.wrong;
    }
  }
  return c;
}

void overwrite(DeviceMat<float> to, DeviceMat<const float> from, int rows) {
  for (int r = 0; r < rows; ++r) {
    std::copy_n(from.device_ptr() + r * from.ld(), from.cols(), to.device_ptr() + r * to.ld());
  }
}

// Rows of one region of a slot or block as floats.
std::vector<float> decode_rows(const CacheLayout& layout, const std::vector<std::byte>& bytes, size_t offset, int rows,
                               bool index) {
  const auto dim = static_cast<size_t>(index ? layout.index_dim : layout.head_dim);
  const size_t row_bytes = index ? layout.index_row_bytes : layout.kv_row_bytes;
  std::vector<float> out(static_cast<size_t>(rows) * dim);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const std::span<const std::byte> row = std::span(bytes).subspan(offset + r * row_bytes, row_bytes);
    const std::span<float> to = std::span(out).subspan(r * dim, dim);
    if (layout.options.kv_type == KvType::kF32) {
      std::memcpy(to.data(), row.data(), row.size());
    } else if (index) {
      unpack_index_row({layout.index_dim}, row, to);
    } else {
      unpack_kv_row({layout.head_dim - layout.rope_dim, layout.rope_dim}, row, to);
    }
  }
  return out;
}

class Twins {
 public:
  Twins(Bench& got, Bench& expected, const ModelConfig& config, bool simulated)
      : got_(got), expected_(expected), config_(config), simulated_(simulated) {}

  void run(const Step& step) {
    got_.begin(step);
    expected_.begin(step);
    for (int layer = 0; layer < kLayers; ++layer) {
      SCOPED_TRACE(fmt::format("layer {} of ratio {}, {} rows", layer, config_.ratio(layer), got_.rows));
      got_.fill(layer);
      expected_.fill(layer);
      norm_rope(layer);
      if (config_.ratio(layer) == 4) {
        got_.compress_index(layer);
        expected_.compress_index(layer);
        check_blocks();
        select(layer);
      }
      if (config_.ratio(layer) > 0) {
        got_.compress(layer);
        expected_.compress(layer);
        check_blocks();
      }
      attend(layer);
    }
    check_slots();
    got_.end();
    expected_.end();
  }

  // What was met over all steps.
  int values = 0;
  int steps = 0;
  int chosen_rows = 0;
  int different_rows = 0;
  double worst_context = 0.0;
  double context_tolerance = 0.0;

 private:
  void expect_close(const std::vector<float>& got, const std::vector<float>& expected, double tolerance,
                    const char* what) {
    const Comparison c = compare(got, expected, tolerance, simulated_ ? 0.6 : 0.0);
    EXPECT_EQ(c.wrong, 0) << what;
    values += static_cast<int>(got.size());
    steps += c.steps;
  }

  void norm_rope(int layer) {
    got_.norm_rope(layer);
    expected_.norm_rope(layer);
    expect_close(got_.read(got_.q), expected_.read(expected_.q), 40 * kEpsilon, "q");
    expect_close(got_.read(got_.kv), expected_.read(expected_.kv), 40 * kEpsilon, "kv");
    overwrite(got_.q, expected_.q, got_.rows);
    overwrite(got_.kv, expected_.kv, got_.rows);
  }

  void check_blocks() {
    const CacheLayout& layout = got_.ops->cache_layout();
    for (const SequenceSlice& slice : got_.slices()) {
      for (const int32_t id : slice.blocks) {
        const auto got = got_.block(id);
        const auto expected = expected_.block(id);
        for (const LayerCache& layer : layout.layers) {
          if (layer.ratio > 0) {
            expect_close(decode_rows(layout, got, layer.kv_offset, layer.rows_per_block, false),
                         decode_rows(layout, expected, layer.kv_offset, layer.rows_per_block, false), 100 * kEpsilon,
                         "entries");
          }
          if (layer.ratio == 4) {
            expect_close(decode_rows(layout, got, layer.index_offset, layer.rows_per_block, true),
                         decode_rows(layout, expected, layer.index_offset, layer.rows_per_block, true), 100 * kEpsilon,
                         "index entries");
          }
        }
        got_.ops->write_block(id, expected);
      }
    }
  }

  void select(int layer) {
    got_.select(layer);
    expected_.select(layer);
    const std::vector<float> got_q = got_.read(got_.index_q);
    const std::vector<float> expected_q = expected_.read(expected_.index_q);
    expect_close(got_q, expected_q, 100 * kEpsilon, "index q");
    const std::vector<int32_t> got = got_.read(got_.selected);
    const std::vector<int32_t> expected = expected_.read(expected_.selected);
    const auto k = static_cast<size_t>(config_.index_topk);
    for (size_t r = 0; r < static_cast<size_t>(got_.rows); ++r) {
      const std::vector<int32_t> a(got.begin() + static_cast<ptrdiff_t>(r * k),
                                   got.begin() + static_cast<ptrdiff_t>((r + 1) * k));
      const std::vector<int32_t> b(expected.begin() + static_cast<ptrdiff_t>(r * k),
                                   expected.begin() + static_cast<ptrdiff_t>((r + 1) * k));
      ++chosen_rows;
      different_rows += a == b ? 0 : 1;
    }
    for (int r = 0; r < got_.rows; ++r) {
      std::copy_n(expected_.selected.device_ptr() + r * expected_.selected.ld(), config_.index_topk,
                  got_.selected.device_ptr() + r * got_.selected.ld());
    }
  }

  void attend(int layer) {
    got_.attend(layer);
    expected_.attend(layer);
    // A score of normalised q against k is off by at most (terms / lanes + tree) eps |q| |k| / sqrt(D), a weight by
    // twice that and exp's own 3e-7, and the result is a mean of keys.
    const double keys = norm_of_largest_key();
    const double dim = config_.head_dim;
    const double score_error = (dim / 16 + 6) * kEpsilon * keys;
    const double tolerance = (2 * score_error + 6e-7 + 200 * kEpsilon) * keys / std::sqrt(dim) * 4;
    const Comparison c = compare(got_.read(got_.context), expected_.read(expected_.context), tolerance, 0.0);
    worst_context = std::max(worst_context, c.worst);
    context_tolerance = std::max(context_tolerance, tolerance);
    EXPECT_EQ(c.wrong, 0) << "context; worst of the others " << c.worst << ", tolerance " << tolerance;
  }

  [[nodiscard]] double norm_of_largest_key() const {
    double largest = 0.0;
    for (int r = 0; r < got_.rows; ++r) {
      double sum = 0.0;
      for (int i = 0; i < config_.head_dim; ++i) {
        const auto v = static_cast<double>(got_.kv.device_ptr()[r * got_.kv.ld() + i]);
        sum += v * v;
      }
      largest = std::max(largest, std::sqrt(sum));
    }
    return std::max(largest, std::sqrt(static_cast<double>(config_.head_dim)));
  }

  void check_slots() {
    const CacheLayout& layout = got_.ops->cache_layout();
    for (const SequenceSlice& slice : got_.slices()) {
      const auto got = got_.slot(slice.slot);
      const auto expected = expected_.slot(slice.slot);
      for (const LayerCache& layer : layout.layers) {
        // Both were made of the same rows: nothing but copies, additions of ape and lossless packing.
        const size_t ring_bytes = static_cast<size_t>(layout.ring_rows) * layout.kv_row_bytes;
        EXPECT_EQ(std::memcmp(got.data() + layer.ring_offset, expected.data() + layer.ring_offset, ring_bytes), 0)
            << "ring";
        EXPECT_EQ(
            std::memcmp(got.data() + layer.state.offset, expected.data() + layer.state.offset, layer.state.bytes()), 0)
            << "state";
        EXPECT_EQ(std::memcmp(got.data() + layer.index_state.offset, expected.data() + layer.index_state.offset,
                              layer.index_state.bytes()),
                  0)
            << "index state";
      }
    }
  }

 private:
  Bench& got_;
  Bench& expected_;
  const ModelConfig& config_;
  bool simulated_;
};

// Starts and ends inside blocks, steps longer than window and ring, rows of one sequence between those of others.
const Step kSteps[] = {{{0, 1}},           {{0, 130}, {1, 3}},         {{2, 0}, {0, 5}, {1, 1}, {2, 170}},
                       {{1, 1}, {0, 1}},   {{2, 1}, {1, 1}, {0, 1}},   {{0, 200}},
                       {{1, 64}, {0, 16}}, {{0, 1}, {2, 7}, {1, 128}}, {{0, 129}, {2, 1}}};

TEST_P(CpuAttention, AgreesWithTheReference) {
  Bench got = bench();
  Bench expected = reference();
  Twins twins(got, expected, config_, simulated());
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

Results run_all(Bench bench, const std::vector<Step>& steps) {
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
  const std::vector<Step> steps(std::begin(kSteps), std::begin(kSteps) + 6);
  const Results expected =
      run_all({std::make_unique<cpu::CpuOps>(config_, backend_options(GetParam().storage, "scalar", 2)), config_,
               weights_, kBlocks},
              steps);
  expect_same(run_all(bench(), steps), expected, GetParam().isa);
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuAttention, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace fathom
