// Which slot and which block is in use, and how often. Owns the numbering and the reference counts; the bytes are the
// backend's. One pool serves all sequences of an engine, on the engine's thread. Users hold CacheSlot and BlockTable
// (cache_handles.h), which give back what they took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/ops.h"

namespace fathom {

struct CacheLimits {
  int max_context = 0;  // positions of one sequence
  int max_slots = 0;    // live sequences and snapshots together
  int max_blocks = 0;   // blocks of all of them together
};

class CachePool {
 public:
  // `ops` must outlive the pool, and the pool everything that holds its slots and blocks. Throws kBadRequest (a limit
  // below 1) and kContextBound (more positions than the model knows). Reserves nothing yet.
  CachePool(Ops& ops, const CacheLimits& limits);
  ~CachePool();
  CachePool(const CachePool&) = delete;
  CachePool& operator=(const CachePool&) = delete;

  [[nodiscard]] const CacheLayout& layout() const { return ops_->cache_layout(); }
  [[nodiscard]] const CacheLimits& limits() const { return limits_; }

  [[nodiscard]] int slots_in_use() const { return slots_reserved_ - static_cast<int>(free_slots_.size()); }
  [[nodiscard]] int blocks_in_use() const { return blocks_reserved() - static_cast<int>(free_blocks_.size()); }
  [[nodiscard]] int blocks_free() const { return limits_.max_blocks - blocks_in_use(); }
  [[nodiscard]] size_t bytes_in_use() const;
  // Whether `n` more blocks can be taken, as far as limits and memory go; memory is reserved for them. Throws what the
  // backend throws, but for kOutOfMemory, which is an answer here.
  [[nodiscard]] bool try_reserve(int n);
  // Bytes of one slot, for whoever translates slots; what they hold is nobody's.
  [[nodiscard]] std::span<std::byte> slot_scratch();

 private:
  friend class CacheSlot;
  friend class BlockTable;

  // Throw kCacheFull, and what the backend throws when its memory does not suffice; then nothing is taken.
  [[nodiscard]] int acquire_slot();
  [[nodiscard]] std::vector<int32_t> acquire_blocks(int n);  // reference count 1 each
  void release_slot(int slot) noexcept;
  void retain_block(int block) noexcept;
  void release_block(int block) noexcept;
  [[nodiscard]] bool is_shared(int block) const { return block_refs_[static_cast<size_t>(block)] > 1; }

  void reserve_slots(int n);
  void reserve_blocks(int n);
  [[nodiscard]] int blocks_reserved() const { return static_cast<int>(block_refs_.size()); }

  Ops* ops_;
  CacheLimits limits_;
  int slots_reserved_ = 0;
  std::vector<int> block_refs_;  // by block; one for each that the backend has reserved
  std::vector<int> free_slots_;  // the next to hand out is the last
  std::vector<std::byte> slot_scratch_;
  std::vector<int> free_blocks_;  // capacities suffice for all that are reserved: giving back cannot fail
};

}  // namespace fathom
