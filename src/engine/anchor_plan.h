// Where a request leaves anchors for those that come after it: at positions its caller named, every `interval` tokens,
// and before the last token of its prompt, so that the same prompt costs one row. Pure.
#pragma once

#include <span>
#include <vector>

namespace fathom {

class AnchorPlan {
 public:
  // Plans none.
  AnchorPlan() = default;
  // `named`: any order. Those that follow another one closely are left out, but for the last: an anchor costs more than
  // a few rows. `interval` 0: no regular ones.
  AnchorPlan(int n_prompt, std::span<const int> named, int interval);

  // One more, for a request that waits for it.
  void add(int position);

  // The first position after `position`; INT_MAX when there is none.
  [[nodiscard]] int next(int position) const;
  // Where a step from `start` must end so that no anchor before `end` is missed, when anchors can still be taken
  // `slack` rows later: after `start`, and at most `end`.
  [[nodiscard]] int end_of_step(int start, int end, int slack) const;

 private:
  std::vector<int> positions_;  // ascending
  int interval_ = 0;
};

}  // namespace fathom
