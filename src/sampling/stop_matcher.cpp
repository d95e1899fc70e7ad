#include "sampling/stop_matcher.h"

#include <fmt/format.h>

#include "core/error.h"

namespace fathom {
namespace {

constexpr int kRoot = 0;
constexpr int kNone = -1;

}  // namespace

StopMatcher::StopMatcher(std::span<const std::string> stops) : nodes_(1) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      throw Error(ErrorCode::kBadRequest, fmt::format("stop[{}]: empty, expected at least one character", i));
    }
    lengths_.push_back(stops[i].size());
    add(stops[i], i);
  }
  link();
}

int StopMatcher::child(int node, char c) const {
  for (const auto& [edge, target] : nodes_[static_cast<size_t>(node)].next) {
    if (edge == c) {
      return target;
    }
  }
  return kNone;
}

void StopMatcher::add(std::string_view stop, size_t index) {
  int node = kRoot;
  for (const char c : stop) {
    int next = child(node, c);
    if (next == kNone) {
      next = static_cast<int>(nodes_.size());
      nodes_[static_cast<size_t>(node)].next.emplace_back(c, next);
      const size_t depth = nodes_[static_cast<size_t>(node)].depth + 1;
      nodes_.emplace_back().depth = depth;
    }
    node = next;
  }
  std::optional<size_t>& match = nodes_[static_cast<size_t>(node)].match;
  match = match ? match : index;
}

// Breadth first, so that a node's fallback, which is shorter, is complete before it.
void StopMatcher::link() {
  std::vector<int> queue{kRoot};
  for (size_t i = 0; i < queue.size(); ++i) {
    const int node = queue[i];
    for (const auto& [c, target] : nodes_[static_cast<size_t>(node)].next) {
      Node& next = nodes_[static_cast<size_t>(target)];
      next.fallback = node == kRoot ? kRoot : advance(nodes_[static_cast<size_t>(node)].fallback, c);
      if (!next.match) {
        next.match = nodes_[static_cast<size_t>(next.fallback)].match;
      }
      queue.push_back(target);
    }
  }
}

int StopMatcher::advance(int node, char c) const {
  while (true) {
    const int next = child(node, c);
    if (next != kNone) {
      return next;
    }
    if (node == kRoot) {
      return kRoot;
    }
    node = nodes_[static_cast<size_t>(node)].fallback;
  }
}

std::string StopMatcher::feed(std::string_view piece) {
  if (matched_) {
    return {};
  }
  const size_t n_held = held_.size();
  held_ += piece;
  for (size_t i = n_held; i < held_.size(); ++i) {
    node_ = advance(node_, held_[i]);
    matched_ = nodes_[static_cast<size_t>(node_)].match;
    if (matched_) {
      std::string before = held_.substr(0, i + 1 - lengths_[*matched_]);
      held_.clear();
      return before;
    }
  }
  const size_t n_certain = held_.size() - nodes_[static_cast<size_t>(node_)].depth;
  std::string certain = held_.substr(0, n_certain);
  held_.erase(0, n_certain);
  return certain;
}

std::string StopMatcher::finish() {
  node_ = kRoot;
  return std::exchange(held_, {});
}

}  // namespace fathom
