// Queries, KV rows and attention (docs/model.md 4.1 to 4.4).
//
// A query meets its keys in a fixed order: the window in blocks of positions, then the entries in blocks of numbers,
// both cut at multiples of the kernels' block and seen from the first to the last. Every head of every query runs
// through its blocks on its own, so neither the rows that share a block nor the thread can change a bit.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"
#include "backend/cpu/uploaded.h"
#include "core/activation_sim.h"

namespace fathom::cpu {
namespace {

constexpr int kHeadsTogether = 8;  // of one row, in norm_rope

}  // namespace

void CpuOps::round_kv_row(float* row) const {
  if (simulated()) {
    kernels_.rows->round_fp8(row, config_.nope_dim());
  }
  if (packed_rows()) {
    kernels_.rows->round_bf16(row + config_.nope_dim(), config_.rope_dim);
  }
}

void CpuOps::store_kv_row(const float* row, std::byte* out) const {
  if (packed_rows()) {
    kernels_.rows->pack_kv(row, config_.nope_dim(), config_.rope_dim, out);
  } else {
    std::memcpy(out, row, static_cast<size_t>(config_.head_dim) * sizeof(float));
  }
}

void CpuOps::load_kv_row(const std::byte* in, float* row) const {
  if (packed_rows()) {
    kernels_.attention->unpack_kv(in, config_.nope_dim(), config_.rope_dim, row);
  } else {
    std::memcpy(row, in, static_cast<size_t>(config_.head_dim) * sizeof(float));
  }
}

// On matrix units where keys are bfloat16 numbers, and heads and dims fill tiles.
bool CpuOps::attends_in_tiles() const {
  return kernels_.attention->tiles != nullptr && packed_rows() && config_.n_heads % kTileHeads == 0 &&
         config_.nope_dim() % kFp8Group == 0 && config_.rope_dim % kFp8Group == 0;
}

void CpuOps::norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) {
  const int dim = config_.head_dim;
  const bool compressed = config_.ratio(layer) > 0;
  const int parts = (config_.n_heads + kHeadsTogether - 1) / kHeadsTogether + 1;  // the last is the KV row
  const RowKernels& rows = *kernels_.rows;
  split(static_cast<int64_t>(plan_.rows()) * parts, matrix_bytes(q), [&](Range range, int) {
    for (int64_t i = range.first; i < range.last; ++i) {
      const int r = static_cast<int>(i / parts);
      const int part = static_cast<int>(i % parts);
      const RopeRow rope = plan_.rope(compressed, r);
      if (part == parts - 1) {
        float* row = kv.device_ptr() + r * kv.ld();
        rows.rms_norm(row, dim, vector_values(kv_norm), config_.rms_eps, row);
        rows.rotate(row + config_.nope_dim(), config_.rope_dim, rope.cos, rope.sin, 1.0F);
        round_kv_row(row);
        continue;
      }
      const int last = std::min(config_.n_heads, (part + 1) * kHeadsTogether);
      for (int h = part * kHeadsTogether; h < last; ++h) {
        float* head = q.device_ptr() + r * q.ld() + static_cast<ptrdiff_t>(h) * dim;
        rows.rms_norm(head, dim, nullptr, config_.rms_eps, head);
        rows.rotate(head + config_.nope_dim(), config_.rope_dim, rope.cos, rope.sin, 1.0F);
      }
    }
  });
}

// One tile of rows and a range of heads.
class CpuOps::TileAttention {
 public:
  struct Inputs {
    int layer = 0;
    const float* sinks = nullptr;
    DeviceMat<const float> q;
    DeviceMat<const float> kv;
    DeviceMat<const int32_t> selected;
    DeviceMat<float> context;
  };

  TileAttention(CpuOps& ops, const Inputs& in, const StepPlan::Tile& tile, int first_head, int last_head,
                AttentionScratch& scratch)
      : ops_(ops),
        in_(in),
        tile_(tile),
        sequence_(ops.plan_.sequence(tile.sequence)),
        layer_(ops.cache_.layer(in.layer)),
        scratch_(scratch),
        first_head_(first_head),
        n_heads_(last_head - first_head),
        dim_(ops.config_.head_dim),
        ld_(scratch.head_ld()),
        tiles_(ops.attends_in_tiles() ? ops.kernels_.attention->tiles : nullptr),
        block_(tiles_ != nullptr ? kTileKeys : kKeyBlock),
        start_(ops.plan_.row(tile.first_row).position) {}

  void run() {
    for (int i = 0; i < tile_.n_rows; ++i) {
      begin(i);
    }
    add_window();
    if (layer_.ratio > 0) {
      add_shared_entries();
      for (int i = 0; i < tile_.n_rows; ++i) {
        if (!sees_all(i)) {
          add_selected_entries(i);
        }
      }
    }
    for (int i = 0; i < tile_.n_rows; ++i) {
      finish(i);
    }
  }

 private:
  [[nodiscard]] const float* input(int i) const {
    return in_.q.device_ptr() + (tile_.first_row + i) * in_.q.ld() + static_cast<ptrdiff_t>(first_head_) * dim_;
  }
  [[nodiscard]] float* output(int i) const {
    return in_.context.device_ptr() + (tile_.first_row + i) * in_.context.ld() +
           static_cast<ptrdiff_t>(first_head_) * dim_;
  }
  [[nodiscard]] bool padded() const { return ld_ != dim_; }
  [[nodiscard]] ptrdiff_t padded_offset(int i) const { return static_cast<ptrdiff_t>(i) * n_heads_ * ld_; }
  [[nodiscard]] float* sum(int i) const { return padded() ? scratch_.sum() + padded_offset(i) : output(i); }
  [[nodiscard]] float* max(int i) const { return scratch_.max() + static_cast<ptrdiff_t>(i) * n_heads_; }
  [[nodiscard]] float* total(int i) const { return scratch_.total() + static_cast<ptrdiff_t>(i) * n_heads_; }

  [[nodiscard]] int visible(int i) const { return visible_entries(start_ + i, layer_.ratio); }
  [[nodiscard]] const int32_t* selection(int i) const {
    return in_.selected.device_ptr() + (tile_.first_row + i) * in_.selected.ld();
  }
  // Entry numbers ascend, so the list is complete when its last number is in the last place.
  [[nodiscard]] bool sees_all(int i) const {
    const int n = visible(i);
    return in_.selected.cols() == 0 || n == 0 || (n <= in_.selected.cols() && selection(i)[n - 1] == n - 1);
  }

  void begin(int i) {
    for (int h = 0; h < n_heads_; ++h) {
      max(i)[h] = in_.sinks[first_head_ + h];  // a raw logit: unscaled, and only in the denominator
      total(i)[h] = 1.0F;
      if (padded()) {
        std::copy_n(input(i) + static_cast<ptrdiff_t>(h) * dim_, dim_,
                    scratch_.q() + padded_offset(i) + static_cast<ptrdiff_t>(h) * ld_);
      }
    }
    std::fill_n(sum(i), static_cast<ptrdiff_t>(n_heads_) * ld_, 0.0F);
    if (tiles_ != nullptr) {
      tiles_->split_query(input(i), n_heads_, dim_, tile_q(i));
    }
  }

  void attend(int i, const float* keys, ptrdiff_t key_ld, int first, int last) {
    if (tiles_ != nullptr) {
      tiles_->attend_block({.keys = scratch_.tile_keys(),
                            .pairs = scratch_.tile_pairs(),
                            .first = first,
                            .last = last,
                            .dim = dim_,
                            .scale = ops_.attention_scale_,
                            .n_heads = n_heads_,
                            .q = tile_q(i),
                            .max = max(i),
                            .total = total(i),
                            .sum = sum(i)});
      return;
    }
    ops_.kernels_.attention->attend_block({.keys = keys,
                                           .key_ld = key_ld,
                                           .first = first,
                                           .last = last,
                                           .dim = ld_,
                                           .scale = ops_.attention_scale_,
                                           .n_heads = n_heads_,
                                           .q = padded() ? scratch_.q() + padded_offset(i) : input(i),
                                           .max = max(i),
                                           .total = total(i),
                                           .sum = sum(i)});
  }

  [[nodiscard]] uint16_t* tile_q(int i) const {
    return scratch_.tile_q() + static_cast<ptrdiff_t>(i) * n_heads_ * dim_ * 2;
  }

  // A block of keys is filled row by row, then closed.
  void load_key(int k, const std::byte* row) {
    if (tiles_ != nullptr) {
      tiles_->unpack_key(row, ops_.config_.nope_dim(), ops_.config_.rope_dim, k, scratch_.tile_keys());
    } else {
      ops_.load_kv_row(row, scratch_.keys() + static_cast<ptrdiff_t>(k) * ld_);
    }
  }
  void copy_key(int k, const float* row) {
    if (tiles_ != nullptr) {
      tiles_->set_key(row, dim_, k, scratch_.tile_keys());
    } else {
      std::copy_n(row, dim_, scratch_.keys() + static_cast<ptrdiff_t>(k) * ld_);
    }
  }
  void close_block(int first, int last) {
    if (tiles_ != nullptr) {
      tiles_->finish_keys(scratch_.tile_keys(), first, last, dim_, scratch_.tile_pairs());
    }
  }

  [[nodiscard]] const float* step_row(int position) const {
    return in_.kv.device_ptr() + (sequence_.first_row + position - sequence_.start) * in_.kv.ld();
  }

  void add_window() {
    const int window = ops_.config_.window;
    const int end = start_ + tile_.n_rows;
    const int oldest = std::max(0, start_ - window + 1);
    for (int base = oldest / block_ * block_; base < end; base += block_) {
      const float* keys = scratch_.keys();
      ptrdiff_t key_ld = ld_;
      if (tiles_ == nullptr && !padded() && base >= sequence_.start &&
          base + block_ <= sequence_.start + sequence_.n_rows) {
        keys = step_row(base);  // where they are: all of this step
        key_ld = in_.kv.ld();
      } else {
        load_window(base, std::max(base, oldest), std::min(base + block_, end));
      }
      for (int i = 0; i < tile_.n_rows; ++i) {
        const int position = start_ + i;
        const int first = std::max(0, position - window + 1 - base);
        const int last = std::min(block_, position + 1 - base);
        if (first < last) {
          attend(i, keys, key_ld, first, last);
        }
      }
    }
  }

  // Positions [first, last) into the block that begins at `base`.
  void load_window(int base, int first, int last) {
    for (int t = first; t < last; ++t) {
      if (t < sequence_.start) {
        load_key(t - base, ops_.cache_.ring_row(sequence_, layer_, t));
      } else {
        copy_key(t - base, step_row(t));
      }
    }
    close_block(first - base, last - base);
  }

  // Entries of the rows that see all of theirs: each block is loaded once.
  void add_shared_entries() {
    int end = 0;
    for (int i = 0; i < tile_.n_rows; ++i) {
      end = sees_all(i) ? visible(i) : end;
    }
    for (int base = 0; base < end; base += block_) {
      const int n = std::min(block_, end - base);
      for (int k = 0; k < n; ++k) {
        load_key(k, ops_.cache_.kv_entry(sequence_, layer_, base + k));
      }
      close_block(0, n);
      for (int i = 0; i < tile_.n_rows; ++i) {
        const int last = std::min(block_, visible(i) - base);
        if (last > 0 && sees_all(i)) {
          attend(i, scratch_.keys(), ld_, 0, last);
        }
      }
    }
  }

  void add_selected_entries(int i) {
    const int32_t* entries = selection(i);
    const int32_t* end = std::find_if(entries, entries + in_.selected.cols(), [](int32_t c) { return c < 0; });
    for (int n = 0; entries != end; entries += n) {
      n = static_cast<int>(std::min<ptrdiff_t>(block_, end - entries));
      for (int k = 0; k < n; ++k) {
        load_key(k, ops_.cache_.kv_entry(sequence_, layer_, entries[k]));
      }
      close_block(0, n);
      attend(i, scratch_.keys(), ld_, 0, n);
    }
  }

  void finish(int i) {
    const RowKernels& rows = *ops_.kernels_.rows;
    const RopeRow rope = ops_.plan_.rope(layer_.ratio > 0, tile_.first_row + i);
    for (int h = 0; h < n_heads_; ++h) {
      float* out = output(i) + static_cast<ptrdiff_t>(h) * dim_;
      rows.scale(sum(i) + static_cast<ptrdiff_t>(h) * ld_, dim_, 1.0F / total(i)[h], out);
      rows.rotate(out + ops_.config_.nope_dim(), ops_.config_.rope_dim, rope.cos, rope.sin, -1.0F);
    }
  }

  CpuOps& ops_;
  const Inputs& in_;
  const StepPlan::Tile& tile_;
  const SequenceSlice& sequence_;
  const LayerCache& layer_;
  AttentionScratch& scratch_;
  int first_head_;
  int n_heads_;
  int dim_;
  int ld_;  // of padded heads and of loaded keys
  const TileAttentionKernels* tiles_;
  int block_;  // keys taken together
  int start_;  // position of the first row
};

void CpuOps::attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
                    DeviceMat<const int32_t> selected, DeviceMat<float> context) {
  const TileAttention::Inputs in{layer, vector_values(sinks), q, kv, selected, context};
  // Enough pieces for all threads: rows first, then heads.
  const auto tiles = static_cast<int>(plan_.tiles().size());
  const int threads = pool_.threads();
  const int unit = attends_in_tiles() ? kTileHeads : 1;
  int parts = 1;
  if (tiles > 0 && tiles < threads) {
    parts = (threads + tiles - 1) / tiles;
  } else if (tiles % threads != 0 && tiles < 4 * threads) {
    parts = 2;
  }
  parts = std::min(parts, config_.n_heads / unit);
  size_t keys = 0;
  for (int r = 0; r < plan_.rows(); ++r) {
    const int position = plan_.row(r).position;
    const int entries = visible_entries(position, config_.ratio(layer));
    keys += static_cast<size_t>(std::min(position + 1, config_.window));
    keys += static_cast<size_t>(selected.cols() > 0 ? std::min(entries, selected.cols()) : entries);
  }
  // Four products take as long as reading a byte.
  const size_t work = keys * static_cast<size_t>(config_.n_heads) * static_cast<size_t>(config_.head_dim) / 4;
  split(threads, work, [&](Range range, int thread) {
    // Every `threads`-th piece: later rows see more.
    for (auto first = static_cast<int>(range.first); first < range.last; ++first) {
      for (int piece = first; piece < tiles * parts; piece += threads) {
        const Range heads = partition(config_.n_heads / unit, parts, piece % parts);
        TileAttention(*this, in, plan_.tiles()[static_cast<size_t>(piece / parts)],
                      static_cast<int>(heads.first) * unit, static_cast<int>(heads.last) * unit,
                      attention_scratch_[static_cast<size_t>(thread)])
            .run();
      }
    }
  });
  store_window(layer, kv);
}

// Only now: earlier rows of the step still needed what the newer ones overwrite. Rows that a later one of the same step
// would overwrite are left out, so no slot is written twice.
void CpuOps::store_window(int layer, DeviceMat<const float> kv) {
  const LayerCache& cache = cache_.layer(layer);
  for (const SequenceSlice& sequence : plan_.batch().sequences) {
    const int end = sequence.start + sequence.n_rows;
    for (int t = std::max(sequence.start, end - cache_.layout().ring_rows); t < end; ++t) {
      const int r = sequence.first_row + t - sequence.start;
      store_kv_row(kv.device_ptr() + r * kv.ld(), cache_.ring_row(sequence, cache, t));
    }
  }
}

}  // namespace fathom::cpu
