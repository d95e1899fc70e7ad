#include "backend/cpu/step_plan.h"

#include <algorithm>

#include "backend/rope.h"
#include "core/check.h"

namespace fathom::cpu {
namespace {

constexpr int kRowsWorthSharing = 16;  // a row takes about 3 microseconds

}  // namespace

RopeRow make_rope_row(std::span<const float> frequencies, int position, float* out) {
  float* cos = out;
  float* sin = out + 2 * frequencies.size();
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const Rotation r = rope_rotation(position, frequencies[i]);
    cos[2 * i] = r.cos;
    cos[2 * i + 1] = r.cos;
    sin[2 * i] = -r.sin;
    sin[2 * i + 1] = r.sin;
  }
  return {cos, sin};
}

StepPlan::StepPlan(const ModelConfig& config, int max_rows)
    : rope_dim_(static_cast<size_t>(config.rope_dim)),
      plain_frequencies_(rope_frequencies(config, false)),
      compressed_frequencies_(rope_frequencies(config, true)) {
  const auto rows = static_cast<size_t>(max_rows);
  rows_.reserve(rows);
  tiles_.reserve(rows);
  plain_rope_.resize(rows * 2 * rope_dim_);
  compressed_rope_.resize(rows * 2 * rope_dim_);
}

void StepPlan::make(const StepBatch& batch, ThreadPool& pool) {
  FATHOM_CHECK(static_cast<size_t>(batch.rows()) <= rows_.capacity(), "a step has at most max_rows rows");
  batch_ = batch;
  rows_.clear();
  tiles_.clear();
  for (int s = 0; s < static_cast<int>(batch.sequences.size()); ++s) {
    const SequenceSlice& slice = sequence(s);
    for (int i = 0; i < slice.n_rows; ++i) {
      rows_.push_back({s, slice.start + i});
    }
    for (int first = 0; first < slice.n_rows; first += kTileRows) {
      tiles_.push_back({s, slice.first_row + first, std::min(kTileRows, slice.n_rows - first)});
    }
  }
  const auto fill = [&](Range range, int) {
    for (auto r = static_cast<size_t>(range.first); r < static_cast<size_t>(range.last); ++r) {
      const int position = rows_[r].position;
      make_rope_row(plain_frequencies_, position, plain_rope_.data() + r * 2 * rope_dim_);
      make_rope_row(compressed_frequencies_, position, compressed_rope_.data() + r * 2 * rope_dim_);
    }
  };
  if (batch.rows() < kRowsWorthSharing) {
    fill({0, batch.rows()}, 0);
  } else {
    pool.parallel_for(batch.rows(), fill);
  }
}

}  // namespace fathom::cpu
