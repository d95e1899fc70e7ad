// The bytes of slots and blocks in device memory, and their translation to and from the form of CacheLayout. Here a
// region of packed rows is three planes (codes, rotary dims, scales) where the host form has whole rows one after the
// other; the bytes are the same in number.
#pragma once

#include <span>
#include <vector>

#include "backend/cache_layout.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

class CacheStore {
 public:
  CacheStore(Device& device, cudaStream_t stream, const CacheLayout& layout)
      : device_(device), stream_(stream), layout_(layout) {}

  void reserve(int n_slots, int n_blocks);
  void copy_slot(int from, int to);
  void copy_block(int from, int to);
  // Wait.
  void read_slot(int slot, std::span<std::byte> out) const;
  void read_block(int block, std::span<std::byte> out) const;
  void write_slot(int slot, std::span<const std::byte> in);
  void write_block(int block, std::span<const std::byte> in);

  [[nodiscard]] const std::vector<std::byte*>& slots() const { return slots_; }
  [[nodiscard]] const std::vector<std::byte*>& blocks() const { return blocks_; }

  [[nodiscard]] RowRegion ring(int layer) const;
  [[nodiscard]] RowRegion entries(int layer) const;
  [[nodiscard]] RowRegion index(int layer) const;

 private:
  enum class Direction { kToHost, kToDevice };

  void grow(std::vector<std::byte*>& addresses, int n, size_t bytes);
  // Rearranges all packed regions of a slot or block from `from` to `to`; the rest is copied.
  void translate_slot(std::span<const std::byte> from, std::span<std::byte> to, Direction direction) const;
  void translate_block(std::span<const std::byte> from, std::span<std::byte> to, Direction direction) const;

  Device& device_;
  cudaStream_t stream_;
  const CacheLayout& layout_;
  std::vector<DeviceBuffer> memory_;
  std::vector<std::byte*> slots_;
  std::vector<std::byte*> blocks_;
};

}  // namespace fathom::cuda
