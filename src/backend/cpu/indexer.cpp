// Lightning indexer (docs/model.md 4.6). Nothing is scored while a query may keep all that it sees.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"
#include "core/packed_rows.h"

namespace fathom::cpu {

// Codes are used where the rows have them and fill whole groups.
bool CpuOps::scores_codes() const { return packed_rows() && config_.index_dim % kFp4Group == 0; }

void CpuOps::rotate_index_row(int layer, int r, DeviceMat<float> q) const {
  const int dim = config_.index_dim;
  const RopeRow rope = plan_.rope(config_.ratio(layer) > 0, r);
  const RowKernels& rows = *kernels_.rows;
  for (int h = 0; h < config_.index_heads; ++h) {
    float* head = q.device_ptr() + r * q.ld() + static_cast<ptrdiff_t>(h) * dim;
    rows.rotate(head + dim - config_.rope_dim, config_.rope_dim, rope.cos, rope.sin, 1.0F);
    if (simulated()) {
      rows.hadamard(head, dim);
      rows.round_fp4(head, dim);
    }
  }
}

void CpuOps::set_index_query(int r, DeviceMat<const float> q, DeviceMat<const float> weights,
                             IndexScratch& scratch) const {
  const double scale =
      1.0 / (std::sqrt(static_cast<double>(config_.index_dim)) * std::sqrt(static_cast<double>(config_.index_heads)));
  const AttentionKernels& kernels = *kernels_.attention;
  for (int h = 0; h < config_.index_heads; ++h) {
    const float* head = q.device_ptr() + r * q.ld() + static_cast<ptrdiff_t>(h) * config_.index_dim;
    const auto weight = static_cast<double>(weights.device_ptr()[r * weights.ld() + h]);
    scratch.query.weights[h] = static_cast<float>(weight * scale);
    if (scores_codes()) {
      kernels.set_index_codes(scratch.query, h, head);
    } else {
      kernels.set_index_values(scratch.query, h, head);
    }
  }
}

void CpuOps::score_entries(int layer, const SequenceSlice& sequence, Range entries, const IndexQuery& query,
                           IndexScratch& scratch) {
  const LayerCache& cache = cache_.layer(layer);
  for (auto c = static_cast<int>(entries.first); c < entries.last;) {
    const int run = std::min(
        {IndexScratch::kRun, cache.rows_per_block - c % cache.rows_per_block, static_cast<int>(entries.last) - c});
    const std::byte* rows = cache_.index_entry(sequence, cache, c);
    if (scores_codes()) {
      kernels_.attention->score_codes(query, rows, run, scratch.keys(), scratch.scores);
    } else if (packed_rows()) {
      unpack_index_rows(rows, run, scratch);
      kernels_.attention->score_values(query, scratch.unpacked(), run, scratch.scores);
    } else {
      kernels_.attention->score_values(query, rows, run, scratch.scores);
    }
    scratch.top.add(c, scratch.scores, run);
    c += run;
  }
}

void CpuOps::unpack_index_rows(const std::byte* rows, int n, IndexScratch& scratch) const {
  const auto dim = static_cast<size_t>(config_.index_dim);
  const size_t row_bytes = cache_.layout().index_row_bytes;
  for (int i = 0; i < n; ++i) {
    const std::span<float> out(scratch.unpacked_row(i), dim);
    unpack_index_row({config_.index_dim}, {rows + static_cast<size_t>(i) * row_bytes, row_bytes}, out);
  }
}

void CpuOps::select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                            DeviceMat<int32_t> selected) {
  const int rows = plan_.rows();
  const int ratio = config_.ratio(layer);
  const int topk = config_.index_topk;
  size_t scored = 0;
  for (int r = 0; r < rows; ++r) {
    const int visible = visible_entries(plan_.row(r).position, ratio);
    scored += visible > topk ? static_cast<size_t>(visible) : 0;
  }
  // Few rows: each one's entries are divided, and the best of the parts are merged.
  const int threads = pool_.threads();
  const int parts = scored > 0 && 2 * rows <= threads ? threads / rows : 1;
  const auto scratch = [&](int i) -> IndexScratch& { return index_scratch_[static_cast<size_t>(i)]; };
  const auto out = [&](int r) { return selected.device_ptr() + r * selected.ld(); };
  if (parts > 1) {
    for (int r = 0; r < rows; ++r) {
      if (visible_entries(plan_.row(r).position, ratio) > topk) {
        rotate_index_row(layer, r, q);
        set_index_query(r, q, weights, scratch(r));
      }
    }
  }

  const auto head_values = static_cast<size_t>(q.cols());
  const size_t work = scored == 0 ? static_cast<size_t>(rows) * static_cast<size_t>(topk) * sizeof(int32_t)
                                  : (static_cast<size_t>(rows) + scored / 4) * head_values * sizeof(float);
  split(static_cast<int64_t>(rows) * parts, work, [&](Range range, int thread) {
    for (auto piece = static_cast<int>(range.first); piece < range.last; ++piece) {
      const int r = piece / parts;
      const StepPlan::Row& row = plan_.row(r);
      const int visible = visible_entries(row.position, ratio);
      IndexScratch& own = scratch(parts > 1 ? piece : thread);
      if (visible <= topk) {
        if (piece % parts == 0) {
          std::iota(out(r), out(r) + visible, 0);
          std::fill(out(r) + visible, out(r) + topk, -1);
        }
        continue;
      }
      if (parts == 1) {
        rotate_index_row(layer, r, q);
        set_index_query(r, q, weights, own);
      }
      score_entries(layer, plan_.sequence(row.sequence), partition(visible, parts, piece % parts),
                    parts > 1 ? scratch(r).query : own.query, own);
      if (parts == 1) {
        own.top.take(out(r));
      }
    }
  });
  for (int r = 0; parts > 1 && r < rows; ++r) {
    if (visible_entries(plan_.row(r).position, ratio) > topk) {
      TopEntries& best = scratch(r * parts).top;
      for (int part = 1; part < parts; ++part) {
        best.add(scratch(r * parts + part).top);
        scratch(r * parts + part).top.clear();
      }
      best.take(out(r));
    }
  }
}

}  // namespace fathom::cpu
