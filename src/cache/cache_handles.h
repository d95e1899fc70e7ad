// What a sequence holds of a CachePool. Destructors give it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_pool.h"

namespace fathom {

// One slot. A moved-from handle holds none and may only be destroyed or assigned to.
class CacheSlot {
 public:
  // Throws kCacheFull.
  explicit CacheSlot(CachePool& pool) : pool_(&pool), id_(pool.acquire_slot()) {}
  ~CacheSlot();
  CacheSlot(CacheSlot&& other) noexcept;
  CacheSlot& operator=(CacheSlot&& other) noexcept;
  CacheSlot(const CacheSlot&) = delete;
  CacheSlot& operator=(const CacheSlot&) = delete;

  [[nodiscard]] CachePool& pool() const;
  [[nodiscard]] int id() const { return id_; }
  // Copies the bytes.
  void copy_from(const CacheSlot& other);
  // Whole slots. Wait.
  void read(std::span<std::byte> out) const;
  void write(std::span<const std::byte> in);

 private:
  CachePool* pool_;
  int id_;
};

// The blocks of a sequence, by position. Copies share them.
class BlockTable {
 public:
  explicit BlockTable(CachePool& pool) : pool_(&pool) {}
  ~BlockTable();
  BlockTable(const BlockTable& other);
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable other) noexcept;

  [[nodiscard]] int size() const { return static_cast<int>(ids_.size()); }
  [[nodiscard]] std::span<const int32_t> ids() const { return ids_; }
  [[nodiscard]] bool is_of(const CachePool& pool) const { return pool_ == &pool; }
  [[nodiscard]] bool is_last_shared() const { return !ids_.empty() && pool_->is_shared(ids_.back()); }
  // Blocks that nobody else holds, counted from the end: what dropping this table frees, for tables share what comes
  // first.
  [[nodiscard]] int unshared() const;

  // Appends blocks until there are `size`; with `copy_last`, replaces the last present one by a copy of its own first.
  // All or none: throws kCacheFull and what the backend throws.
  void extend(int size, bool copy_last);
  void truncate(int size) noexcept;

  // Whole blocks. Wait.
  void read(int i, std::span<std::byte> out) const;
  // The block must not be shared.
  void write(int i, std::span<const std::byte> in);

 private:
  CachePool* pool_;
  std::vector<int32_t> ids_;
};

}  // namespace fathom
