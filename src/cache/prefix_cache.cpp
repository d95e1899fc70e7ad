#include "cache/prefix_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cache/anchor_image.h"

namespace fathom {
namespace {

// Conversations go on at their end far more often than they are edited in the middle.
constexpr double kInnerWeight = 1.0 / 8.0;
constexpr int kMaxCountedHits = 7;

// Tokens from the next node above that is as asked for, or from the beginning.
template <class Wanted>
int distance_above(const PrefixNode& node, const Wanted& wanted) {
  const PrefixNode* above = node.parent;
  while (above->parent != nullptr && !wanted(*above)) {
    above = above->parent;
  }
  return node.position - above->position;
}

// Tokens that would be computed again without this anchor.
int distance_to_anchor_above(const PrefixNode& node) {
  return distance_above(node, [](const PrefixNode& above) { return above.anchor.has_value(); });
}

// Whether an anchor is worth its bytes on disk: what it saves is more than a few rows, or a noticeable part of the
// prompt.
bool is_worth_storing(int distance, int position) {
  constexpr int kManyTokens = 64;
  constexpr int kPart = 64;
  return distance >= std::min(kManyTokens, position / kPart + 1);
}

class AnchorSource final : public PrefixStore::Source {
 public:
  explicit AnchorSource(const Anchor& anchor) : anchor_(anchor) {}
  [[nodiscard]] std::span<const std::byte> image() const override { return anchor_.image(); }
  void read_block(int i, std::span<std::byte> block) const override { anchor_.blocks().read(i, block); }

 private:
  const Anchor& anchor_;
};

class TableSink final : public PrefixStore::Sink {
 public:
  explicit TableSink(BlockTable& blocks) : blocks_(blocks) {}
  void write_block(int i, std::span<const std::byte> block) override { blocks_.write(i, block); }

 private:
  BlockTable& blocks_;
};

}  // namespace

void PrefixCache::use_store(std::unique_ptr<PrefixStore> store) {
  store_ = std::move(store);
  find_stored();
}

PrefixMatch PrefixCache::match(std::span<const TokenId> tokens) const {
  const PrefixTree::Walk walk = tree_.walk(tokens);
  const PrefixNode* node = best(walk, static_cast<int>(tokens.size()));
  return {.cached = node == nullptr ? 0 : node->position, .matched = walk.matched, .instead = walk.expected};
}

PrefixMatch PrefixCache::resume(std::span<const TokenId> tokens, SequenceCache& sequence) {
  find_stored();
  PrefixTree::Walk walk = tree_.walk(tokens);
  PrefixMatch match{.cached = 0, .matched = walk.matched, .instead = walk.expected};
  int end = static_cast<int>(tokens.size());
  PrefixNode* node = best(walk, end);
  while (node != nullptr && !node->anchor) {
    const int position = node->position;
    if (!load(*node, tokens.first(static_cast<size_t>(position)))) {
      end = position;
    }
    walk = tree_.walk(tokens);  // loading may have evicted others
    node = best(walk, end);
  }
  if (node == nullptr) {
    ++stats_.misses;
    return match;
  }
  sequence.resume(*node->anchor);
  match.cached = node->position;
  ++node->hits;
  touch(walk);
  ++stats_.hits;
  stats_.cached_tokens += static_cast<uint64_t>(match.cached);
  shrink_to_budget();
  return match;
}

bool PrefixCache::load(PrefixNode& node, std::span<const TokenId> tokens) {
  const CacheLayout& layout = pool_->layout();
  BlockTable blocks(*pool_);
  if (const PrefixNode* near = PrefixTree::nearest_anchor(node)) {
    blocks = near->anchor->blocks();
    blocks.truncate(std::min(near->position, node.position) / layout.options.block_tokens);
  }
  const int n_shared = blocks.size();
  const int n_blocks = layout.blocks_for(node.position);
  if (!make_room(n_blocks - n_shared)) {
    return false;
  }
  blocks.extend(n_blocks, /*copy_last=*/false);
  HostBuffer image(anchor_image_bytes(layout, node.position));
  TableSink sink(blocks);
  if (!store_->load(*node.stored, tokens, n_shared, sink, image.bytes())) {
    node.stored.reset();
    tree_.tidy(node);
    return false;
  }
  node.anchor.emplace(node.position, std::move(image), std::move(blocks));
  node.hits = 0;
  count(*node.anchor, 1);
  count_tree();
  return true;
}

void PrefixCache::store(PrefixNode& node, std::span<const TokenId> tokens) {
  const int distance = distance_above(node, [](const PrefixNode& above) { return above.stored || above.offered; });
  if (store_ && !node.stored && !node.offered && is_worth_storing(distance, node.position)) {
    node.offered = store_->offer(tokens, AnchorSource(*node.anchor));
  }
}

void PrefixCache::find_stored() {
  if (!store_) {
    return;
  }
  for (const PrefixStore::Stored& stored : store_->take_stored()) {
    tree_.insert(stored.tokens).stored = stored.id;
  }
  count_tree();
}

PrefixNode* PrefixCache::best(const PrefixTree::Walk& walk, int end) {
  const auto usable = [&](const PrefixNode* node) { return node->holds_something() && node->position < end; };
  const auto found = std::find_if(walk.nodes.rbegin(), walk.nodes.rend(), usable);
  return found == walk.nodes.rend() ? nullptr : *found;
}

void PrefixCache::keep(std::span<const TokenId> tokens, const SequenceCache& sequence) {
  const int position = static_cast<int>(tokens.size());
  if (tokens.empty() || sequence.poisoned() || position < sequence.rewind_floor() || position > sequence.position()) {
    return;
  }
  PrefixTree::Walk walk = tree_.walk(tokens);
  const bool is_there = !walk.nodes.empty() && walk.nodes.back()->position == position && walk.nodes.back()->anchor;
  if (!is_there) {
    Anchor anchor = sequence.freeze(position);
    PrefixNode& node = tree_.insert(tokens);
    node.anchor.emplace(std::move(anchor));
    node.hits = 0;
    count(*node.anchor, 1);
    walk = tree_.walk(tokens);
  }
  find_stored();
  store(*walk.nodes.back(), tokens);
  touch(walk);
  shrink_to_budget();
}

bool PrefixCache::make_room(int n_blocks) {
  while (!pool_->try_reserve(n_blocks)) {
    PrefixNode* node = least_valuable(/*must_free_blocks=*/true);
    node = node != nullptr ? node : least_valuable(/*must_free_blocks=*/false);
    if (node == nullptr) {
      return false;
    }
    evict(*node);
  }
  return true;
}

void PrefixCache::clear() {
  while (PrefixNode* node = least_valuable(/*must_free_blocks=*/false)) {
    evict(*node);
  }
}

void PrefixCache::flush() {
  if (store_) {
    store_->flush();
    find_stored();
  }
}

PrefixCacheStats PrefixCache::stats() const {
  PrefixCacheStats stats = stats_;
  if (store_) {
    stats.disk = store_->stats();
  }
  return stats;
}

// What lies on the way of a sequence that is in use is likely to be used again.
void PrefixCache::touch(const PrefixTree::Walk& walk) {
  for (PrefixNode* node : walk.nodes) {
    node->credit = age_;
  }
  count_tree();
}

void PrefixCache::shrink_to_budget() {
  while (stats_.bytes > stats_.budget_bytes) {
    PrefixNode* node = least_valuable(/*must_free_blocks=*/false);
    if (node == nullptr) {
      return;
    }
    evict(*node);
  }
}

PrefixNode* PrefixCache::least_valuable(bool must_free_blocks) {
  PrefixNode* least = nullptr;
  double least_value = std::numeric_limits<double>::infinity();
  tree_.visit([&](PrefixNode& node) {
    if (must_free_blocks && node.anchor->blocks().unshared() == 0) {
      return;
    }
    if (const double v = value(node); v < least_value) {
      least_value = v;
      least = &node;
    }
  });
  return least;
}

// Tokens saved per byte, in the manner of GreedyDual-Size-Frequency: what was touched when less had been evicted is
// worth less.
double PrefixCache::value(const PrefixNode& node) const {
  const size_t freed =
      node.anchor->image().size() + static_cast<size_t>(node.anchor->blocks().unshared()) * pool_->layout().block_bytes;
  const double weight = node.children.empty() ? 1.0 : kInnerWeight;
  const double uses = 1.0 + std::min(node.hits, kMaxCountedHits);
  return node.credit + weight * uses * distance_to_anchor_above(node) / static_cast<double>(std::max<size_t>(freed, 1));
}

void PrefixCache::evict(PrefixNode& node) {
  age_ = std::max(age_, value(node));
  count(*node.anchor, -1);
  node.anchor.reset();
  tree_.tidy(node);
  ++stats_.evictions;
  count_tree();
}

void PrefixCache::count(const Anchor& anchor, int sign) {
  for (const int32_t block : anchor.blocks().ids()) {
    const auto i = static_cast<size_t>(block);
    holders_.resize(std::max(holders_.size(), i + 1));
    stats_.blocks -= static_cast<int>(holders_[i] > 0);
    holders_[i] += sign;
    stats_.blocks += static_cast<int>(holders_[i] > 0);
  }
  image_bytes_ += static_cast<size_t>(sign) * anchor.image().size();
  stats_.anchors += sign;
}

void PrefixCache::count_tree() {
  stats_.bytes = image_bytes_ + tree_.token_bytes() + static_cast<size_t>(stats_.blocks) * pool_->layout().block_bytes;
}

}  // namespace fathom
