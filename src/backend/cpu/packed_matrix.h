// A matrix, or a stack of them, in the panels of panel.h. Owns its bytes.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/panel.h"
#include "core/buffer.h"
#include "core/thread_pool.h"
#include "core/weight.h"

namespace fathom::cpu {

class PackedMatrix {
 public:
  // Packs all slices, in parallel. A type without a panel format of its own stays as the file has it and is expanded to
  // F32 panels when it is used.
  PackedMatrix(const Weight& weight, ThreadPool& pool);

  [[nodiscard]] const PanelFormat& format() const { return format_; }
  [[nodiscard]] bool expands() const { return data_.size() == 0; }
  [[nodiscard]] int rows() const { return weight_.out_dim; }
  [[nodiscard]] int columns() const { return weight_.in_dim; }
  [[nodiscard]] int blocks() const { return weight_.in_dim / kBlockColumns; }
  [[nodiscard]] int panels() const { return (weight_.out_dim + kLanes - 1) / kLanes; }
  // Lanes of a panel that are rows of the matrix.
  [[nodiscard]] int lanes(int panel) const {
    const int left = weight_.out_dim - panel * kLanes;
    return left < kLanes ? left : kLanes;
  }
  // A packed panel. Precondition: !expands().
  [[nodiscard]] const std::byte* panel(int slice, int index) const {
    return data_.bytes().data() +
           (static_cast<size_t>(slice) * static_cast<size_t>(panels()) + static_cast<size_t>(index)) * panel_bytes_;
  }
  // The panel as F32, in `out` [columns][16]; `row` has room for `columns` floats.
  void expand_panel(int slice, int index, float* row, float* out) const;
  // Scratch of one thread for products with this matrix.
  [[nodiscard]] size_t workspace_bytes() const;

 private:
  void pack_panel(int slice, int index, std::byte* out) const;
  void pack_scales(int slice, int index, std::byte* out) const;

  Weight weight_;
  PanelFormat format_;
  size_t panel_bytes_ = 0;
  HostBuffer data_;
};

}  // namespace fathom::cpu
