// The rows of a step on their way to the device. Device addresses stay the same from step to step, so that a captured
// graph stays valid: one layout for steps of few rows, whose copy must be small, and one for the largest.
#pragma once

#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels/params.h"
#include "backend/step_batch.h"

namespace fathom::cuda {

class StepStaging {
 public:
  static constexpr int kFewRows = 64;

  StepStaging(Device& device, int max_rows, int rope_dim);

  // Copies the batch to the device, on `stream`. `slots`, `blocks`: device addresses by id. The copy before must have
  // been waited for.
  void stage(const StepBatch& batch, const std::vector<std::byte*>& slots, const std::vector<std::byte*>& blocks,
             cudaStream_t stream);

  // Of the layout that the last stage() used.
  [[nodiscard]] const StepView& view() const { return current_->view; }
  [[nodiscard]] float2* plain_rotations() const { return rotations_.as<float2>(); }
  [[nodiscard]] float2* compressed_rotations() const { return rotations_.as<float2>() + rotation_count_; }
  // Grows when a device buffer had to be replaced: graphs that were captured before are stale.
  [[nodiscard]] int generation() const { return generation_; }

 private:
  struct Layout {
    int rows = 0;
    size_t n_blocks = 0;
    PinnedBuffer host;
    DeviceBuffer device;
    StepView view;
  };

  void make_layout(Layout& layout, int rows, size_t n_blocks);

  Device& device_;
  DeviceBuffer rotations_;
  size_t rotation_count_ = 0;
  Layout few_;
  Layout many_;
  Layout* current_ = nullptr;
  int generation_ = 0;
};

}  // namespace fathom::cuda
