#include "engine/anchor_plan.h"

#include <algorithm>
#include <limits>

namespace fathom {
namespace {

constexpr int kCloseTokens = 256;

}  // namespace

AnchorPlan::AnchorPlan(int n_prompt, std::span<const int> named, int interval)
    : positions_(named.begin(), named.end()), interval_(interval) {
  std::sort(positions_.begin(), positions_.end());
  if (!positions_.empty()) {
    const int last = positions_.back();
    int kept = 0;
    std::erase_if(positions_, [&](int position) {
      const bool close = position != last && position - kept < kCloseTokens;
      kept = close ? kept : position;
      return close;
    });
  }
  add(n_prompt - 1);
}

void AnchorPlan::add(int position) {
  const auto at = std::lower_bound(positions_.begin(), positions_.end(), position);
  if (position > 0 && (at == positions_.end() || *at != position)) {
    positions_.insert(at, position);
  }
}

int AnchorPlan::next(int position) const {
  const auto planned = std::upper_bound(positions_.begin(), positions_.end(), position);
  int first = planned == positions_.end() ? std::numeric_limits<int>::max() : *planned;
  if (interval_ > 0 && position <= std::numeric_limits<int>::max() - interval_) {
    first = std::min(first, position - position % interval_ + interval_);
  }
  return first;
}

int AnchorPlan::end_of_step(int start, int end, int slack) const {
  int anchor = next(start);
  if (anchor >= end || end - anchor <= slack) {
    return end;
  }
  const int latest = anchor + slack;
  for (int later = next(anchor); later <= latest; later = next(later)) {
    anchor = later;
  }
  return anchor;
}

}  // namespace fathom
