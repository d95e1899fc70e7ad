// Queries, KV rows and the attention core (docs/model.md 4.1 to 4.4).
#include <algorithm>

#include "backend/reference/math.h"
#include "backend/reference/reference_ops.h"

namespace fathom::reference {

void ReferenceOps::norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) {
  const auto dim = static_cast<size_t>(config_.head_dim);
  for (const SequenceSlice& sequence : batch_.sequences) {
    pool_.parallel_for(sequence.n_rows, [&](Range range, int) {
      for (int i = static_cast<int>(range.first); i < range.last; ++i) {
        const int r = sequence.first_row + i;
        const int position = sequence.start + i;
        for (int h = 0; h < config_.n_heads; ++h) {
          const std::span<float> head(q.device_ptr() + r * q.ld() + static_cast<size_t>(h) * dim, dim);
          const double scale = inverse_rms(head, config_.rms_eps);
          for (float& v : head) {
            v = static_cast<float>(static_cast<double>(v) * scale);
          }
          rotate_tail(head, position, frequencies(layer), +1);
        }
        const std::span<float> row(kv.device_ptr() + r * kv.ld(), dim);
        rms_norm_row(row, values(kv_norm), config_.rms_eps, row.data());
        rotate_tail(row, position, frequencies(layer), +1);
        round_kv_row(row);
      }
    });
  }
}

void ReferenceOps::attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
                          DeviceMat<const int32_t> selected, DeviceMat<float> context) {
  const LayerCache& cache = layout_.layers[static_cast<size_t>(layer)];
  for (const SequenceSlice& sequence : batch_.sequences) {
    pool_.parallel_for(sequence.n_rows, [&](Range range, int) {
      for (int i = static_cast<int>(range.first); i < range.last; ++i) {
        attend_row(layer, sequence, sequence.first_row + i, sinks, q, kv, selected, context);
      }
    });
    // Only now: earlier rows of the step still needed what the newer ones overwrite. Rows that a later one of the same
    // step would overwrite are left out, so no slot is written twice.
    const int end = sequence.start + sequence.n_rows;
    for (int t = std::max(sequence.start, end - layout_.ring_rows); t < end; ++t) {
      const int r = sequence.first_row + t - sequence.start;
      store_kv_row({kv.device_ptr() + r * kv.ld(), static_cast<size_t>(config_.head_dim)},
                   ring_row(sequence, cache, t));
    }
  }
}

void ReferenceOps::attend_row(int layer, const SequenceSlice& sequence, int row, const Weight& sinks,
                              DeviceMat<const float> q, DeviceMat<const float> kv, DeviceMat<const int32_t> selected,
                              DeviceMat<float> context) const {
  const LayerCache& cache = layout_.layers[static_cast<size_t>(layer)];
  const auto dim = static_cast<size_t>(config_.head_dim);
  const int position = sequence.start + row - sequence.first_row;

  // What the query sees, in one order: the window by position, then the entries by number.
  std::vector<float> keys;
  const auto append = [&]() { return std::span<float>(keys).last(dim); };
  for (int t = std::max(0, position - config_.window + 1); t <= position; ++t) {
    keys.resize(keys.size() + dim);
    if (t < sequence.start) {
      load_kv_row(ring_row(sequence, cache, t), append());
    } else {
      std::copy_n(kv.device_ptr() + (sequence.first_row + t - sequence.start) * kv.ld(), dim, append().data());
    }
  }
  const auto append_entry = [&](int c) {
    keys.resize(keys.size() + dim);
    load_kv_row(kv_entry(sequence, cache, c), append());
  };
  if (selected.cols() > 0) {
    for (int i = 0; i < selected.cols(); ++i) {
      const int32_t c = selected.device_ptr()[row * selected.ld() + i];
      if (c >= 0) {
        append_entry(c);
      }
    }
  } else {
    for (int c = 0; c < visible_entries(position, cache.ratio); ++c) {
      append_entry(c);
    }
  }

  const size_t n = keys.size() / dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  std::vector<double> probability(n);
  std::vector<double> sum(dim);
  for (int h = 0; h < config_.n_heads; ++h) {
    const float* query = q.device_ptr() + row * q.ld() + static_cast<size_t>(h) * dim;
    const double sink = static_cast<double>(values(sinks)[h]);  // a raw logit: unscaled, and only in the denominator
    double max = sink;
    for (size_t i = 0; i < n; ++i) {
      probability[i] = dot(query, keys.data() + i * dim, config_.head_dim) * scale;
      max = std::max(max, probability[i]);
    }
    double total = std::exp(sink - max);
    std::fill(sum.begin(), sum.end(), 0.0);
    for (size_t i = 0; i < n; ++i) {
      const double e = std::exp(probability[i] - max);
      total += e;
      for (size_t k = 0; k < dim; ++k) {
        sum[k] += e * static_cast<double>(keys[i * dim + k]);
      }
    }
    const std::span<float> out(context.device_ptr() + row * context.ld() + static_cast<size_t>(h) * dim, dim);
    std::transform(sum.begin(), sum.end(), out.begin(), [&](double v) { return static_cast<float>(v / total); });
    rotate_tail(out, position, frequencies(layer), -1);
  }
}

}  // namespace fathom::reference
