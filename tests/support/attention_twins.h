// Two backends that run the same steps on the same inputs. After each op the results of the second, the reference,
// replace those of the first, so that a rounding in one op is not judged as an error of the next.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/packed_rows.h"
#include "support/attention_bench.h"

namespace fathom::test {

// Float values that went through the same quantiser may lie on two sides of an edge between two codes: then they differ
// by a step of E4M3 or E2M1, in a few places only.
struct Comparison {
  double worst = 0.0;  // of those within `tolerance`
  int steps = 0;       // one code apart
  int wrong = 0;
};
inline Comparison compare(const std::vector<float>& got, const std::vector<float>& expected, double tolerance,
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

inline void overwrite(DeviceMat<float> to, DeviceMat<const float> from, int rows) {
  for (int r = 0; r < rows; ++r) {
    std::copy_n(from.device_ptr() + r * from.ld(), from.cols(), to.device_ptr() + r * to.ld());
  }
}

// Rows of one region of a slot or block as floats.
inline std::vector<float> decode_rows(const CacheLayout& layout, const std::vector<std::byte>& bytes, size_t offset,
                                      int rows, bool index) {
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

class AttentionTwins {
 public:
  // attention_epsilon: what attention rounds queries and weights to.
  AttentionTwins(AttentionBench& got, AttentionBench& expected, const ModelConfig& config, bool simulated,
                 double attention_epsilon = kEpsilon)
      : got_(got), expected_(expected), config_(config), simulated_(simulated), attention_epsilon_(attention_epsilon) {}

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

  // The rows of q that may keep less than they see: the others may be left as they are.
  [[nodiscard]] std::vector<float> scored_rows(int layer, const std::vector<float>& q) const {
    std::vector<float> out;
    const ptrdiff_t cols = got_.index_q.cols();
    for (const SequenceSlice& slice : got_.slices()) {
      for (int i = 0; i < slice.n_rows; ++i) {
        if (visible_entries(slice.start + i, config_.ratio(layer)) > config_.index_topk) {
          const auto row = q.begin() + (slice.first_row + i) * cols;
          out.insert(out.end(), row, row + cols);
        }
      }
    }
    return out;
  }

  void select(int layer) {
    got_.select(layer);
    expected_.select(layer);
    const std::vector<float> got_q = got_.read(got_.index_q);
    const std::vector<float> expected_q = expected_.read(expected_.index_q);
    expect_close(scored_rows(layer, got_q), scored_rows(layer, expected_q), 100 * kEpsilon, "index q");
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
    // A score of normalised q against k is off by about sqrt(terms of a lane) eps |q| |k| / sqrt(D), a weight by twice
    // that and exp's own 3e-7, and the result is a mean of keys.
    const double keys = norm_of_largest_key();
    const double dim = config_.head_dim;
    const double score_error = std::sqrt(dim / 16) * attention_epsilon_ * keys;
    const double tolerance = (2 * score_error + 4 * attention_epsilon_ + 3e-7) * keys / std::sqrt(dim) * 2;
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
  AttentionBench& got_;
  AttentionBench& expected_;
  const ModelConfig& config_;
  bool simulated_;
  double attention_epsilon_;
};

}  // namespace fathom::test
