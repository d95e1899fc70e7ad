// Experts: rows grouped by expert, so that every expert's weights are read once for all its rows.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"

namespace fathom::cpu {
namespace {

const PackedMatrix& packed(const Weight& w) { return *static_cast<const PackedMatrix*>(w.prepared); }

// Blocks that share a scale in the rows that both meet; 0 when neither is quantised.
int input_group(const Weight& a, const Weight& b) {
  const bool quantised = packed(a).format().quantised() || packed(b).format().quantised();
  return quantised ? std::max(packed(a).input_group(), packed(b).input_group()) : 0;
}

}  // namespace

// Groups in ascending expert id, each in ascending row; the shared expert last.
void CpuOps::group_by_expert(const TopK& chosen, int rows) {
  const int k = config_.n_experts_used;
  std::fill(count_.begin(), count_.end(), 0);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < k; ++i) {
      ++count_[static_cast<size_t>(chosen.ids.device_ptr()[r * chosen.ids.ld() + i])];
    }
  }
  groups_.clear();
  int first = 0;
  int tile = 0;
  const auto add = [&](int expert, int count) {
    groups_.push_back({.expert = expert, .first = first, .count = count, .tile = tile});
    first += count;
    tile += (count + kTileRows - 1) / kTileRows;
  };
  for (int e = 0; e < config_.n_experts; ++e) {
    if (count_[static_cast<size_t>(e)] > 0) {
      add(e, count_[static_cast<size_t>(e)]);
      count_[static_cast<size_t>(e)] = groups_.back().first;  // from here on: where the next row goes
    }
  }
  add(config_.n_experts, rows);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < k; ++i) {
      const int at = count_[static_cast<size_t>(chosen.ids.device_ptr()[r * chosen.ids.ld() + i])]++;
      row_of_[static_cast<size_t>(at)] = r;
      weight_of_[static_cast<size_t>(at)] = chosen.weights.device_ptr()[r * chosen.weights.ld() + i];
    }
    row_of_[static_cast<size_t>(groups_.back().first + r)] = r;
    weight_of_[static_cast<size_t>(groups_.back().first + r)] = 1.0F;
  }
}

// The shared expert's rows are those of x in their order: quantised anew where it wants other scales.
void CpuOps::gather_rows(DeviceMat<const float> x, int routed_group, int shared_group) {
  gathered_.set_shape(x.cols());
  const bool floats = gathered_floats_.size() > 0;
  const auto width = static_cast<size_t>(x.cols());
  split(static_cast<int64_t>(groups_.size()), static_cast<size_t>(x.rows()) * width * sizeof(float),
        [&](Range range, int) {
          for (int64_t g = range.first; g < range.last; ++g) {
            const ExpertRows& group = groups_[static_cast<size_t>(g)];
            const bool anew = group.expert == config_.n_experts && shared_group != routed_group;
            for (int i = 0; i < group.count; ++i) {
              const int r = row_of_[static_cast<size_t>(group.first + i)];
              const float* row = x.device_ptr() + r * x.ld();
              const int tile = group.tile + i / kTileRows;
              if (anew) {
                gathered_.quantise(kernels_.linear, shared_group, tile, i % kTileRows, row);
              } else if (routed_group > 0) {
                gathered_.copy_row(tile, i % kTileRows, input_, r / kTileRows, r % kTileRows);
              }
              if (floats) {
                std::copy_n(
                    row, width,
                    gathered_floats_.as<float>().data() + static_cast<size_t>(group.tile * kTileRows + i) * width);
              }
            }
          }
        });
}

// hidden = weight * swiglu(gate x, up x) for every group, 16 columns at a time.
void CpuOps::expand_experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK&) {
  const auto index = static_cast<size_t>(layer);
  const ptrdiff_t stride = hidden_stride();
  const int routed_panels = packed(routed.gate).panels();
  const int shared_panels = packed(shared.gate).panels();
  const auto n_routed = static_cast<int64_t>(groups_.size()) - 1;
  const int64_t items = n_routed * routed_panels + shared_panels;
  const size_t bytes = static_cast<size_t>(items) * packed(routed.gate).format().panel_bytes(config_.hidden) * 2;
  split(items, bytes, [&](Range range, int thread) {
    for (int64_t item = range.first; item < range.last; ++item) {
      const bool is_shared = item >= n_routed * routed_panels;
      const ExpertRows& group = groups_[static_cast<size_t>(is_shared ? n_routed : item / routed_panels)];
      const int panel = static_cast<int>(is_shared ? item - n_routed * routed_panels : item % routed_panels);
      const ExpertWeights& w = is_shared ? shared : routed;
      const int slice = is_shared ? 0 : group.expert;
      const auto first_row = static_cast<ptrdiff_t>(group.tile) * kTileRows;
      const Input input{.quantised = &gathered_,
                        .first_tile = group.tile,
                        .floats = gathered_floats_.as<float>().data() + first_row * config_.hidden,
                        .ld = config_.hidden,
                        .rows = group.count};
      float* gate = gate_.as<float>().data() + first_row * stride + panel * kLanes;
      float* up = up_.as<float>().data() + first_row * stride + panel * kLanes;
      const int lanes = packed(w.gate).lanes(panel);
      multiply_panel(packed(w.gate), slice, panel, input, gate, stride, 0, lanes, thread);
      multiply_panel(packed(w.up), slice, panel, input, up, stride, 0, lanes, thread);
      const float limit = is_shared ? config_.shared_swiglu_limit[index] : config_.swiglu_limit[index];
      for (int i = 0; i < group.count; ++i) {
        kernels_.linear.swiglu(gate + i * stride, up + i * stride, lanes, limit,
                               weight_of_[static_cast<size_t>(group.first + i)], gate + i * stride);
      }
    }
  });
}

// y = sum of the groups' down products, in the order of groups_.
void CpuOps::reduce_experts(const ExpertWeights& routed, const ExpertWeights& shared, DeviceMat<float> y) {
  const ptrdiff_t stride = hidden_stride();
  const PackedMatrix& down = packed(routed.down);
  const size_t bytes = groups_.size() * static_cast<size_t>(down.panels()) * down.format().panel_bytes(down.columns());
  split(down.panels(), bytes, [&](Range range, int thread) {
    float* partial = partial_[static_cast<size_t>(thread)].as<float>().data();
    for (int panel = static_cast<int>(range.first); panel < range.last; ++panel) {
      const int lanes = down.lanes(panel);
      for (int r = 0; r < y.rows(); ++r) {
        std::fill_n(y.device_ptr() + r * y.ld() + panel * kLanes, lanes, 0.0F);
      }
      for (const ExpertRows& group : groups_) {
        const bool is_shared = group.expert == config_.n_experts;
        const PackedMatrix& w = packed(is_shared ? shared.down : routed.down);
        const Input input{.quantised = &hidden_codes_,
                          .first_tile = group.tile,
                          .floats = gate_.as<float>().data() + static_cast<ptrdiff_t>(group.tile) * kTileRows * stride,
                          .ld = stride,
                          .rows = group.count};
        multiply_panel(w, is_shared ? 0 : group.expert, panel, input, partial, kLanes, 0, lanes, thread);
        for (int i = 0; i < group.count; ++i) {
          float* out = y.device_ptr() + row_of_[static_cast<size_t>(group.first + i)] * y.ld() + panel * kLanes;
          std::transform(out, out + lanes, partial + i * kLanes, out, std::plus<>());
        }
      }
    }
  });
}

void CpuOps::experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
                     DeviceMat<const float> x, DeviceMat<float> y) {
  group_by_expert(chosen, x.rows());
  const int routed_in = input_group(routed.gate, routed.up);
  const int shared_in = input_group(shared.gate, shared.up);
  if (routed_in > 0) {
    quantise_rows(input_, x, routed_in);
  }
  gather_rows(x, routed_in, shared_in);
  // Rows of one group are as wide as the wider of the two kinds of expert.
  hidden_codes_.set_shape((std::max(config_.expert_ffn, config_.shared_ffn()) + kBlockColumns - 1) / kBlockColumns *
                          kBlockColumns);
  expand_experts(layer, routed, shared, chosen);
  const int routed_hidden = input_group(routed.down, routed.down);
  const int shared_hidden = input_group(shared.down, shared.down);
  if (routed_hidden > 0 || shared_hidden > 0) {
    const auto stride = static_cast<size_t>(hidden_stride());
    split(static_cast<int64_t>(groups_.size()), gate_.size() / 16, [&](Range range, int) {
      for (int64_t g = range.first; g < range.last; ++g) {
        const ExpertRows& group = groups_[static_cast<size_t>(g)];
        const int scaled = group.expert == config_.n_experts ? shared_hidden : routed_hidden;
        for (int i = 0; i < group.count && scaled > 0; ++i) {
          const auto row = static_cast<size_t>(group.tile * kTileRows + i);
          hidden_codes_.quantise(kernels_.linear, scaled, group.tile + i / kTileRows, i % kTileRows,
                                 gate_.as<float>().data() + row * stride);
        }
      }
    });
  }
  reduce_experts(routed, shared, y);
}

}  // namespace fathom::cpu
