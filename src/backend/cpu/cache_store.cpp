#include "backend/cpu/cache_store.h"

#include <cstring>
#include <utility>

#include "backend/cpu/zeroed.h"
#include "core/check.h"

namespace fathom::cpu {
namespace {

// Zeroed: padding between regions is read and written with them.
void grow(std::vector<HostBuffer>& owned, int n, size_t bytes) {
  while (static_cast<int>(owned.size()) < n) {
    owned.push_back(zeroed_buffer(bytes));
  }
}

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  FATHOM_CHECK(from.size() == to.size(), "slots and blocks are copied whole");
  if (from.data() != to.data()) {
    std::memcpy(to.data(), from.data(), from.size());
  }
}

}  // namespace

CacheStore::CacheStore(CacheLayout layout) : layout_(std::move(layout)) {}

void CacheStore::reserve(int n_slots, int n_blocks) {
  grow(slots_, n_slots, layout_.slot_bytes);
  grow(blocks_, n_blocks, layout_.block_bytes);
}

void CacheStore::copy_slot(int from, int to) {
  copy(slots_[static_cast<size_t>(from)].bytes(), slots_[static_cast<size_t>(to)].bytes());
}

void CacheStore::copy_block(int from, int to) {
  copy(blocks_[static_cast<size_t>(from)].bytes(), blocks_[static_cast<size_t>(to)].bytes());
}

void CacheStore::read_slot(int slot, std::span<std::byte> out) const {
  copy(slots_[static_cast<size_t>(slot)].bytes(), out);
}

void CacheStore::read_block(int block, std::span<std::byte> out) const {
  copy(blocks_[static_cast<size_t>(block)].bytes(), out);
}

void CacheStore::write_slot(int slot, std::span<const std::byte> in) {
  copy(in, slots_[static_cast<size_t>(slot)].bytes());
}

void CacheStore::write_block(int block, std::span<const std::byte> in) {
  copy(in, blocks_[static_cast<size_t>(block)].bytes());
}

}  // namespace fathom::cpu
