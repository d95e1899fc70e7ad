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
  // Packs all slices, in parallel. A type without a panel format of its own, and everything without `repack`, stays as
  // the file has it; panels are made when they are used.
  PackedMatrix(const Weight& weight, bool repack, ThreadPool& pool);

  [[nodiscard]] const PanelFormat& format() const { return format_; }
  [[nodiscard]] int rows() const { return weight_.out_dim; }
  [[nodiscard]] int columns() const { return weight_.in_dim; }
  [[nodiscard]] int blocks() const { return weight_.in_dim / kBlockColumns; }
  [[nodiscard]] int panels() const { return (weight_.out_dim + kLanes - 1) / kLanes; }
  // Lanes of a panel that are rows of the matrix.
  [[nodiscard]] int lanes(int panel) const {
    const int left = weight_.out_dim - panel * kLanes;
    return left < kLanes ? left : kLanes;
  }
  // A panel: the packed one, or one made in `room`, which lies kernel_bytes() into the workspace.
  [[nodiscard]] const std::byte* panel(int slice, int index, std::byte* room) const;
  // Blocks of activations that share a scale in products with this matrix alone.
  [[nodiscard]] int input_group() const { return format_.integer_scales() ? kGroupBlocks : 1; }
  // Scratch of one thread for products with this matrix: what the kernels take, then room for a panel.
  [[nodiscard]] size_t kernel_bytes() const;
  [[nodiscard]] size_t workspace_bytes() const;

 private:
  void pack_panel(int slice, int index, std::byte* out) const;
  void pack_scales(int slice, int index, std::byte* out) const;
  void expand_panel(int slice, int index, std::byte* room) const;

  Weight weight_;
  PanelFormat format_;
  size_t panel_bytes_ = 0;
  bool expands_ = false;  // to F32
  HostBuffer data_;       // empty: not packed
};

// What a PackedMatrix of `weight` holds when it is packed.
[[nodiscard]] size_t packed_bytes(const Weight& weight);

}  // namespace fathom::cpu
