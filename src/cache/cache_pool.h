// Which slot and which block belongs to whom. Owns the numbering and the reference counts; the bytes are the backend's.
// One pool serves all sequences of an engine, on the engine's thread.
#pragma once

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
  // `ops` must outlive the pool.
  CachePool(Ops& ops, const CacheLimits& limits);

  [[nodiscard]] const CacheLayout& layout() const { return ops_->cache_layout(); }
  [[nodiscard]] const CacheLimits& limits() const { return limits_; }

  // Throws kCacheFull naming what ran out, how much is in use and the limit. Backend memory grows as needed.
  [[nodiscard]] int acquire_slot();
  void release_slot(int slot) noexcept;
  [[nodiscard]] int acquire_block();  // reference count 1
  void retain_block(int block) noexcept;
  void release_block(int block) noexcept;
  [[nodiscard]] bool is_shared(int block) const;

  void copy_slot(int from, int to) { ops_->copy_slot(from, to); }
  void copy_block(int from, int to) { ops_->copy_block(from, to); }

  [[nodiscard]] int slots_in_use() const { return slots_in_use_; }
  [[nodiscard]] int blocks_in_use() const { return blocks_in_use_; }
  [[nodiscard]] int blocks_free() const { return limits_.max_blocks - blocks_in_use_; }
  [[nodiscard]] size_t bytes_in_use() const;

 private:
  void grow_slots();
  void grow_blocks();

  Ops* ops_;
  CacheLimits limits_;
  std::vector<int> free_slots_;
  std::vector<int> free_blocks_;
  std::vector<int> block_refs_;  // by block id; its size is what the backend has reserved
  int slots_reserved_ = 0;
  int slots_in_use_ = 0;
  int blocks_in_use_ = 0;
};

}  // namespace fathom
