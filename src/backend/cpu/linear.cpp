// Products: panels are dealt to the threads, and each output is computed by one of them from start to end.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"

namespace fathom::cpu {
namespace {

const PackedMatrix& packed(const Weight& w) { return *static_cast<const PackedMatrix*>(w.prepared); }

size_t weight_bytes(const PackedMatrix& w) {
  return w.format().panel_bytes(w.columns()) * static_cast<size_t>(w.panels());
}

}  // namespace

void CpuOps::quantise_rows(QuantisedRows& out, DeviceMat<const float> x, int group, int segments) {
  out.set_shape(x.cols() / segments, segments);
  const size_t bytes = static_cast<size_t>(x.rows()) * static_cast<size_t>(x.cols()) * sizeof(float);
  split(x.rows(), bytes, [&](Range range, int) {
    for (int r = static_cast<int>(range.first); r < range.last; ++r) {
      out.quantise(kernels_.linear, group, r / kTileRows, r % kTileRows, x.device_ptr() + r * x.ld());
    }
  });
}

void CpuOps::multiply_panel(const PackedMatrix& w, int slice, int panel, const Input& x, float* y, ptrdiff_t ld,
                            int first_lane, int last_lane, int thread) {
  std::byte* workspace = workspaces_[static_cast<size_t>(thread)].bytes().data();
  const std::byte* data = w.panel(slice, panel, workspace + w.kernel_bytes());
  if (w.format().quantised()) {
    kernels_.linear.quant_panel({.first = {.format = w.format(),
                                           .panel = data,
                                           .n_blocks = w.blocks(),
                                           .x = x.quantised->tile(x.first_tile, x.first_block),
                                           .y = y,
                                           .ld = ld,
                                           .first_lane = first_lane,
                                           .last_lane = last_lane},
                                 .n_rows = x.rows,
                                 .tile_blocks = x.quantised->blocks(),
                                 .workspace = workspace});
    return;
  }
  kernels_.linear.float_rows({.code = w.format().code,
                              .panel = data,
                              .columns = w.columns(),
                              .x = x.floats,
                              .x_ld = x.ld,
                              .n_rows = x.rows,
                              .y = y,
                              .y_ld = ld,
                              .first_lane = first_lane,
                              .last_lane = last_lane});
}

void CpuOps::matmul(std::span<const Product> products, DeviceMat<const float> x) {
  if (x.rows() == 0) {
    return;
  }
  int64_t panels = 0;
  size_t bytes = 0;
  bool quantised = false;
  int group = 1;
  for (const Product& p : products) {
    const PackedMatrix& w = packed(*p.weight);
    panels += w.panels();
    bytes += weight_bytes(w);
    quantised = quantised || w.format().quantised();
    group = std::max(group, w.input_group());
  }
  if (quantised) {
    quantise_rows(input_, x, group);
  }
  const Input input{.quantised = &input_, .floats = x.device_ptr(), .ld = x.ld(), .rows = x.rows()};
  split(panels, bytes * static_cast<size_t>(x.rows()), [&](Range range, int thread) {
    int64_t first = 0;  // of the product among all panels
    for (const Product& p : products) {
      const PackedMatrix& w = packed(*p.weight);
      const int64_t end = std::min(range.last, first + w.panels());
      for (int64_t i = std::max(range.first, first); i < end; ++i) {
        const int panel = static_cast<int>(i - first);
        multiply_panel(w, 0, panel, input, p.y.device_ptr() + panel * kLanes, p.y.ld(), 0, w.lanes(panel), thread);
      }
      first += w.panels();
    }
  });
}

void CpuOps::matmul_grouped(const Weight& weight, DeviceMat<const float> context, DeviceMat<float> low) {
  const PackedMatrix& w = packed(weight);
  if (w.format().quantised()) {
    quantise_rows(input_, context, w.input_group(), config_.o_groups);
  }
  const int rank = config_.o_lora_rank;
  split(w.panels(), weight_bytes(w) * static_cast<size_t>(context.rows()), [&](Range range, int thread) {
    for (int panel = static_cast<int>(range.first); panel < range.last; ++panel) {
      const int end = w.lanes(panel);
      // A panel may hold rows of several groups, each with its own part of the input.
      for (int lane = 0; lane < end;) {
        const int group = (panel * kLanes + lane) / rank;
        const int last = std::min(end, (group + 1) * rank - panel * kLanes);
        const Input input{.quantised = &input_,
                          .first_block = group * input_.part_blocks(),
                          .floats = context.device_ptr() + static_cast<ptrdiff_t>(group) * w.columns(),
                          .ld = context.ld(),
                          .rows = context.rows()};
        multiply_panel(w, 0, panel, input, low.device_ptr() + panel * kLanes, low.ld(), lane, last, thread);
        lane = last;
      }
    }
  });
}

}  // namespace fathom::cpu
