// Lightning indexer (docs/model.md 4.6).
#include <algorithm>
#include <numeric>

#include "backend/reference/math.h"
#include "backend/reference/reference_ops.h"
#include "core/activation_sim.h"

namespace fathom::reference {

void ReferenceOps::rotate_query_row(int layer, int position, std::span<float> heads) const {
  const auto dim = static_cast<size_t>(config_.index_dim);
  for (size_t h = 0; h < heads.size() / dim; ++h) {
    const std::span<float> head = heads.subspan(h * dim, dim);
    rotate_tail(head, position, frequencies(layer), +1);
    if (simulated()) {
      hadamard(head);
      fp4_simulate(head);
    }
  }
}

void ReferenceOps::select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                                  DeviceMat<int32_t> selected) {
  const LayerCache& cache = layout_.layers[static_cast<size_t>(layer)];
  const int dim = config_.index_dim;
  const int heads = config_.index_heads;
  const double weight_scale = 1.0 / (std::sqrt(static_cast<double>(dim)) * std::sqrt(static_cast<double>(heads)));

  for (const SequenceSlice& sequence : batch_.sequences) {
    pool_.parallel_for(sequence.n_rows, [&](Range range, int) {
      std::vector<float> key(static_cast<size_t>(dim));
      std::vector<float> scores;
      std::vector<int32_t> order;
      for (int i = static_cast<int>(range.first); i < range.last; ++i) {
        const int r = sequence.first_row + i;
        const int position = sequence.start + i;
        float* query = q.device_ptr() + r * q.ld();
        const float* head_weights = weights.device_ptr() + r * weights.ld();
        rotate_query_row(layer, position, {query, static_cast<size_t>(q.cols())});

        const int visible = visible_entries(position, cache.ratio);
        const int kept = std::min(visible, config_.index_topk);
        order.resize(static_cast<size_t>(visible));
        std::iota(order.begin(), order.end(), 0);
        if (kept < visible) {
          scores.resize(static_cast<size_t>(visible));
          for (int c = 0; c < visible; ++c) {
            load_index_row(index_entry(sequence, cache, c), key);
            double score = 0.0;
            for (int h = 0; h < heads; ++h) {
              score += static_cast<double>(head_weights[h]) * weight_scale *
                       std::max(0.0, dot(query + h * dim, key.data(), dim));
            }
            scores[static_cast<size_t>(c)] = static_cast<float>(score);
          }
          // Equal scores: the lower entry wins.
          std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
          });
          std::sort(order.begin(), order.begin() + kept);
        }
        int32_t* out = selected.device_ptr() + r * selected.ld();
        std::fill_n(std::copy_n(order.begin(), kept, out), config_.index_topk - kept, -1);
      }
    });
  }
}

}  // namespace fathom::reference
