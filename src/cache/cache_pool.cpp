#include "cache/cache_pool.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.h"
#include "core/error.h"

namespace fathom {
namespace {

void check_limit(const char* name, int value) {
  if (value < 1) {
    throw Error(ErrorCode::kBadRequest, fmt::format("cache: {} is {}, expected at least 1", name, value));
  }
}

int add_up_to(int limit, int a, int b) { return a > limit - b ? limit : a + b; }

// More than is needed, so that a growing cache asks the backend a logarithmic number of times. Few slots are ever
// needed.
int grown_slots(int reserved, int limit) { return add_up_to(limit, reserved, std::max(reserved, 1)); }

// Not much more, because backends touch what they reserve, and a cache shall take what the plan says.
int grown_blocks(int reserved, int needed, int limit) {
  constexpr int kLeast = 8;
  constexpr int kShare = 64;
  return std::max(needed, add_up_to(limit, reserved, std::max(kLeast, reserved / kShare)));
}

// The lowest number is handed out first.
void add_ids(std::vector<int>& free, int first, int end) {
  for (int id = end - 1; id >= first; --id) {
    free.push_back(id);
  }
}

}  // namespace

CachePool::CachePool(Ops& ops, const CacheLimits& limits) : ops_(&ops), limits_(limits) {
  check_limit("max_context", limits.max_context);
  check_limit("max_slots", limits.max_slots);
  check_limit("max_blocks", limits.max_blocks);
  if (limits.max_context > layout().context_length) {
    throw Error(ErrorCode::kContextBound, fmt::format("cache: a context of {} positions exceeds the model's {}",
                                                      limits.max_context, layout().context_length));
  }
}

CachePool::~CachePool() {
  FATHOM_CHECK(slots_in_use() == 0 && blocks_in_use() == 0, "a sequence or snapshot outlives its cache pool");
}

size_t CachePool::bytes_in_use() const {
  return static_cast<size_t>(slots_in_use()) * layout().slot_bytes +
         static_cast<size_t>(blocks_in_use()) * layout().block_bytes;
}

bool CachePool::try_reserve(int n) {
  if (n > blocks_free()) {
    return false;
  }
  const int needed = blocks_in_use() + n;
  if (needed <= blocks_reserved()) {
    return true;
  }
  try {
    reserve_blocks(grown_blocks(blocks_reserved(), needed, limits_.max_blocks));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) {
      throw;
    }
    return false;
  }
  return true;
}

std::span<std::byte> CachePool::slot_scratch() {
  slot_scratch_.resize(layout().slot_bytes);
  return slot_scratch_;
}

int CachePool::acquire_slot() {
  if (free_slots_.empty()) {
    if (slots_reserved_ == limits_.max_slots) {
      throw Error(ErrorCode::kCacheFull, fmt::format("cache: all {} slots are in use", limits_.max_slots));
    }
    reserve_slots(grown_slots(slots_reserved_, limits_.max_slots));
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

std::vector<int32_t> CachePool::acquire_blocks(int n) {
  if (n > blocks_free()) {
    throw Error(ErrorCode::kCacheFull, fmt::format("cache: {} more blocks needed, but {} of {} are in use", n,
                                                   blocks_in_use(), limits_.max_blocks));
  }
  std::vector<int32_t> blocks;
  blocks.reserve(static_cast<size_t>(n));
  if (const int needed = blocks_in_use() + n; needed > blocks_reserved()) {
    reserve_blocks(grown_blocks(blocks_reserved(), needed, limits_.max_blocks));
  }
  for (int i = 0; i < n; ++i) {
    const int block = free_blocks_.back();
    free_blocks_.pop_back();
    block_refs_[static_cast<size_t>(block)] = 1;
    blocks.push_back(block);
  }
  return blocks;
}

void CachePool::release_slot(int slot) noexcept { free_slots_.push_back(slot); }

void CachePool::retain_block(int block) noexcept {
  int& refs = block_refs_[static_cast<size_t>(block)];
  FATHOM_CHECK(refs > 0, "only a block in use can be shared");
  ++refs;
}

void CachePool::release_block(int block) noexcept {
  int& refs = block_refs_[static_cast<size_t>(block)];
  FATHOM_CHECK(refs > 0, "a block was given back twice");
  if (--refs == 0) {
    free_blocks_.push_back(block);
  }
}

void CachePool::reserve_slots(int n) {
  free_slots_.reserve(static_cast<size_t>(n));
  ops_->reserve_cache(n, blocks_reserved());
  add_ids(free_slots_, slots_reserved_, n);
  slots_reserved_ = n;
}

void CachePool::reserve_blocks(int n) {
  free_blocks_.reserve(static_cast<size_t>(n));
  block_refs_.reserve(static_cast<size_t>(n));
  ops_->reserve_cache(slots_reserved_, n);
  add_ids(free_blocks_, blocks_reserved(), n);
  block_refs_.resize(static_cast<size_t>(n));
}

}  // namespace fathom
