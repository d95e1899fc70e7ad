// Takes weights over into device memory: bytes are copied through page-locked buffers, while the device repacks what
// arrived before. Owns the weights' memory.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels/params.h"
#include "backend/ops.h"
#include "core/weight.h"

namespace fathom::cuda {

class WeightLoader {
 public:
  WeightLoader(Device& device, cudaStream_t stream);

  // A slice without bytes is filled with random values (synthetic models). `limit`: bound of ids in a table.
  // Throws kOutOfMemory, kDevice, kUnsupported.
  [[nodiscard]] const DeviceWeight* load(const Weight& weight, WeightRole role, int limit);

  // Everything loaded so far is in place; the staging memory is given back.
  void finish();

 private:
  struct Stage {
    PinnedBuffer host;
    DeviceBuffer device;
    EventHandle done;
    bool busy = false;
  };

  [[nodiscard]] std::byte* allocate(const Weight& weight, size_t bytes);
  // Copies through a stage; gives the place on the device, valid until the stage is used again.
  [[nodiscard]] Stage& next_stage();
  void copy_raw(const std::byte* from, size_t bytes, std::byte* to);
  void load_planes(const Weight& weight, DeviceWeight& planes);
  void load_scales(const Weight& weight, DeviceWeight& planes);
  void fill_planes(const Weight& weight, WeightRole role, DeviceWeight& planes);
  [[nodiscard]] const DeviceWeight* load_vector(const Weight& weight);
  [[nodiscard]] const DeviceWeight* load_table(const Weight& weight, int limit);

  Device& device_;
  Launch launch_;
  std::deque<DeviceWeight> weights_;  // deque: pointers stay valid
  std::vector<DeviceBuffer> memory_;
  DeviceBuffer grid_;
  std::vector<Stage> stages_;
  size_t next_ = 0;
};

}  // namespace fathom::cuda
