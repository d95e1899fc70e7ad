// Compressed KV entries and index keys (docs/model.md 4.5).
#include <algorithm>
#include <limits>

#include "backend/reference/math.h"
#include "backend/reference/reference_ops.h"
#include "core/activation_sim.h"

namespace fathom::reference {
namespace {

// The carried rows of one compressor: position t lies at t mod capacity, [value | gate], the gate with its ape.
struct StateRing {
  const CompressorState* state;
  std::byte* base;

  [[nodiscard]] float* row(int position) const {
    const auto slot = static_cast<size_t>(position % state->capacity);
    return reinterpret_cast<float*>(base + slot * state->row_bytes());
  }
};

}  // namespace

template <class Store>
void ReferenceOps::pool_entries(const SequenceSlice& sequence, int layer, const CompressorState& state,
                                const CompressorWeights& w, DeviceMat<const float> kv, DeviceMat<const float> gate,
                                Store&& store) {
  const size_t channels = static_cast<size_t>(state.roles) * static_cast<size_t>(state.width);
  const auto width = static_cast<size_t>(state.width);
  const StateRing ring{&state, slots_[static_cast<size_t>(sequence.slot)].get() + state.offset};
  const int end = sequence.start + sequence.n_rows;

  // [value | gate] of this step's rows, as the ring will hold them.
  std::vector<float> rows(static_cast<size_t>(sequence.n_rows) * 2 * channels);
  for (int i = 0; i < sequence.n_rows; ++i) {
    const int r = sequence.first_row + i;
    const float* v = kv.device_ptr() + r * kv.ld();
    const float* g = gate.device_ptr() + r * gate.ld();
    const float* ape = row_values(w.ape, 0, (sequence.start + i) % state.ratio);
    float* out = rows.data() + static_cast<size_t>(i) * 2 * channels;
    std::copy_n(v, channels, out);
    std::transform(g, g + channels, ape, out + channels, std::plus<>());
  }
  const auto row_at = [&](int position) {
    return position < sequence.start ? ring.row(position)
                                     : rows.data() + static_cast<size_t>(position - sequence.start) * 2 * channels;
  };

  const int first_entry = sequence.start / state.ratio;
  pool_.parallel_for(end / state.ratio - first_entry, [&](Range range, int) {
    std::vector<float> entry(width);
    for (int c = first_entry + static_cast<int>(range.first); c < first_entry + range.last; ++c) {
      // With two roles an entry also pools the block before it, through the first half of the channels.
      const int oldest = std::max(0, (c - state.roles + 1) * state.ratio);
      const auto channel_of = [&](int position) {
        return position / state.ratio == c ? static_cast<size_t>(state.roles - 1) * width : size_t{0};
      };
      for (size_t i = 0; i < width; ++i) {
        double max = -std::numeric_limits<double>::infinity();
        for (int t = oldest; t < (c + 1) * state.ratio; ++t) {
          max = std::max(max, static_cast<double>(row_at(t)[channels + channel_of(t) + i]));
        }
        double sum = 0.0;
        double pooled = 0.0;
        for (int t = oldest; t < (c + 1) * state.ratio; ++t) {
          const float* row = row_at(t) + channel_of(t) + i;
          const double e = std::exp(static_cast<double>(row[channels]) - max);
          sum += e;
          pooled += e * static_cast<double>(row[0]);
        }
        entry[i] = static_cast<float>(pooled / sum);
      }
      rms_norm_row(entry, values(w.norm), config_.rms_eps, entry.data());
      rotate_tail(entry, c * state.ratio, frequencies(layer), +1);
      store(c, std::span<float>(entry));
    }
  });

  for (int t = std::max(sequence.start, end - state.capacity); t < end; ++t) {
    std::copy_n(row_at(t), 2 * channels, ring.row(t));
  }
}

void ReferenceOps::compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                            DeviceMat<const float> gate) {
  const LayerCache& cache = layout_.layers[static_cast<size_t>(layer)];
  for (const SequenceSlice& sequence : batch_.sequences) {
    pool_entries(sequence, layer, cache.state, w, kv, gate, [&](int c, std::span<float> entry) {
      round_kv_row(entry);
      store_kv_row(entry, kv_entry(sequence, cache, c));
    });
  }
}

void ReferenceOps::compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                                  DeviceMat<const float> gate) {
  const LayerCache& cache = layout_.layers[static_cast<size_t>(layer)];
  for (const SequenceSlice& sequence : batch_.sequences) {
    pool_entries(sequence, layer, cache.index_state, w, kv, gate, [&](int c, std::span<float> entry) {
      std::byte* out = index_entry(sequence, cache, c);
      if (simulated()) {
        hadamard(entry);
        fp4_simulate(entry);
      }
      store_index_row(entry, out);
    });
  }
}

}  // namespace fathom::reference
