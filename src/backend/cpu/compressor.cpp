// Compressed KV entries and index keys (docs/model.md 4.5).
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"
#include "backend/cpu/uploaded.h"
#include "core/packed_rows.h"

namespace fathom::cpu {

// The projections of one compressor in this step, and the state they continue.
struct CpuOps::CompressorInput {
  const SequenceSlice& sequence;
  const CompressorState& state;
  const float* ape;
  DeviceMat<const float> kv;
  DeviceMat<const float> gate;

  [[nodiscard]] ptrdiff_t channels() const { return static_cast<ptrdiff_t>(state.roles) * state.width; }
  [[nodiscard]] ptrdiff_t row(int position) const { return sequence.first_row + position - sequence.start; }
  [[nodiscard]] const float* value_row(int position) const { return kv.device_ptr() + row(position) * kv.ld(); }
  [[nodiscard]] const float* gate_row(int position) const { return gate.device_ptr() + row(position) * gate.ld(); }
  [[nodiscard]] const float* bias_row(int position) const { return ape + position % state.ratio * channels(); }
};

void CpuOps::pool_entry(const CompressorInput& in, int c, float* entry) {
  const CompressorState& state = in.state;
  std::array<PooledToken, kMaxPooled> tokens;
  int n = 0;
  // With two roles an entry also pools the block before it, through the first half of the channels.
  for (int t = std::max(0, (c - state.roles + 1) * state.ratio); t < (c + 1) * state.ratio; ++t) {
    const ptrdiff_t channel = t / state.ratio == c ? static_cast<ptrdiff_t>(state.roles - 1) * state.width : 0;
    PooledToken& token = tokens[static_cast<size_t>(n++)];
    if (t < in.sequence.start) {
      const float* row = cache_.state_row(in.sequence, state, t) + channel;
      token = {.value = row, .gate = row + in.channels(), .bias = nullptr};
    } else {
      token = {.value = in.value_row(t) + channel, .gate = in.gate_row(t) + channel, .bias = in.bias_row(t) + channel};
    }
  }
  kernels_.rows->pool(tokens.data(), n, state.width, entry);
}

template <class Store>
void CpuOps::pool_entries(int layer, const Weight& norm, const CompressorInput& in, Store&& store) {
  const CompressorState& state = in.state;
  const int end = in.sequence.start + in.sequence.n_rows;
  const int first_entry = in.sequence.start / state.ratio;
  const int n = end / state.ratio - first_entry;
  const size_t entry_work = static_cast<size_t>(state.roles * state.ratio) * static_cast<size_t>(state.width) * 16;
  split(n, static_cast<size_t>(n) * entry_work, [&](Range range, int thread) {
    float* entry = entry_scratch_[static_cast<size_t>(thread)].as<float>().data();
    for (auto i = static_cast<int>(range.first); i < range.last; ++i) {
      const int c = first_entry + i;
      pool_entry(in, c, entry);
      kernels_.rows->rms_norm(entry, state.width, vector_values(norm), config_.rms_eps, entry);
      const RopeRow rope =
          make_rope_row(plan_.frequencies(config_.ratio(layer) > 0), c * state.ratio, entry + state.width);
      kernels_.rows->rotate(entry + state.width - config_.rope_dim, config_.rope_dim, rope.cos, rope.sin, 1.0F);
      store(c, entry);
    }
  });
  keep_newest(in, end);
}

// The ring holds the newest rows; those that a later one of this step would overwrite are left out.
void CpuOps::keep_newest(const CompressorInput& in, int end) {
  const ptrdiff_t channels = in.channels();
  for (int t = std::max(in.sequence.start, end - in.state.capacity); t < end; ++t) {
    float* row = cache_.state_row(in.sequence, in.state, t);
    std::copy_n(in.value_row(t), channels, row);
    std::transform(in.gate_row(t), in.gate_row(t) + channels, in.bias_row(t), row + channels, std::plus<>());
  }
}

void CpuOps::compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv, DeviceMat<const float> gate) {
  const LayerCache& cache = cache_.layer(layer);
  for (const SequenceSlice& sequence : plan_.batch().sequences) {
    const CompressorInput in{sequence, cache.state, vector_values(w.ape), kv, gate};
    pool_entries(layer, w.norm, in, [&](int c, float* entry) {
      round_kv_row(entry);
      store_kv_row(entry, cache_.kv_entry(sequence, cache, c));
    });
  }
}

void CpuOps::compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                            DeviceMat<const float> gate) {
  const LayerCache& cache = cache_.layer(layer);
  const int dim = config_.index_dim;
  for (const SequenceSlice& sequence : plan_.batch().sequences) {
    const CompressorInput in{sequence, cache.index_state, vector_values(w.ape), kv, gate};
    pool_entries(layer, w.norm, in, [&](int c, float* entry) {
      std::byte* out = cache_.index_entry(sequence, cache, c);
      const std::span<float> row(entry, static_cast<size_t>(dim));
      if (simulated()) {
        kernels_.rows->hadamard(entry, dim);
        kernels_.rows->round_fp4(entry, dim);
      }
      if (packed_rows()) {
        pack_index_row({dim}, row, {out, cache_.layout().index_row_bytes});
      } else {
        std::memcpy(out, row.data(), row.size_bytes());
      }
    });
  }
}

}  // namespace fathom::cpu
