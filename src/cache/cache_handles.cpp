#include "cache/cache_handles.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fathom {

CacheSlot::~CacheSlot() {
  if (pool_ != nullptr) {
    pool_->release_slot(id_);
  }
}

CacheSlot::CacheSlot(CacheSlot&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}

CacheSlot& CacheSlot::operator=(CacheSlot&& other) noexcept {
  CacheSlot taken(std::move(other));
  std::swap(pool_, taken.pool_);
  std::swap(id_, taken.id_);
  return *this;
}

CachePool& CacheSlot::pool() const {
  FATHOM_CHECK(pool_ != nullptr, "use of a moved-from sequence");
  return *pool_;
}

void CacheSlot::copy_from(const CacheSlot& other) { pool().ops_->copy_slot(other.id_, id_); }

void CacheSlot::read(std::span<std::byte> out) const { pool().ops_->read_slot(id_, out); }

void CacheSlot::write(std::span<const std::byte> in) { pool().ops_->write_slot(id_, in); }

BlockTable::~BlockTable() { truncate(0); }

BlockTable::BlockTable(const BlockTable& other) : pool_(other.pool_), ids_(other.ids_) {
  for (const int32_t id : ids_) {
    pool_->retain_block(id);
  }
}

BlockTable::BlockTable(BlockTable&& other) noexcept : pool_(other.pool_), ids_(std::exchange(other.ids_, {})) {}

BlockTable& BlockTable::operator=(BlockTable other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(ids_, other.ids_);
  return *this;
}

void BlockTable::extend(int size, bool copy_last) {
  BlockTable fresh(*pool_);
  fresh.ids_ = pool_->acquire_blocks(size - this->size() + (copy_last ? 1 : 0));
  ids_.reserve(static_cast<size_t>(size));
  if (copy_last) {
    pool_->ops_->copy_block(ids_.back(), fresh.ids_.back());
    std::swap(ids_.back(), fresh.ids_.back());
  }
  const auto appended = static_cast<std::ptrdiff_t>(size - this->size());
  ids_.insert(ids_.end(), fresh.ids_.begin(), fresh.ids_.begin() + appended);
  fresh.ids_.erase(fresh.ids_.begin(), fresh.ids_.begin() + appended);
}

int BlockTable::unshared() const {
  const auto shared = std::find_if(ids_.rbegin(), ids_.rend(), [this](int32_t id) { return pool_->is_shared(id); });
  return static_cast<int>(shared - ids_.rbegin());
}

void BlockTable::truncate(int size) noexcept {
  while (this->size() > size) {
    pool_->release_block(ids_.back());
    ids_.pop_back();
  }
}

void BlockTable::read(int i, std::span<std::byte> out) const {
  pool_->ops_->read_block(ids_[static_cast<size_t>(i)], out);
}

void BlockTable::write(int i, std::span<const std::byte> in) {
  const int32_t id = ids_[static_cast<size_t>(i)];
  FATHOM_CHECK(!pool_->is_shared(id), "a shared block is never written");
  pool_->ops_->write_block(id, in);
}

}  // namespace fathom
