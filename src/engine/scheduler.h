// Decides what the next step holds. Pure: a function of the requests' lengths alone, so its promises are tested without
// a model, and a request's speed, never its text, depends on its companions.
//
// Requests stand in one line in the order of their arrival. The first of them are active: they own cache. A request
// becomes active only after all that came before it, and when the blocks run out the youngest active one gives its
// cache back and computes it anew later. So the oldest always advances and every request finishes.
//
// Rows go to decoding requests first: each gets its row in every step. Half of the rest goes to the oldest prompt, for
// one prompt done early is worth more than all done late; the other half is shared equally among all prompts, so that a
// short one never waits for a long one.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace fathom {

struct SchedulerLimits {
  int max_rows = 0;        // of a step
  int max_mixed_rows = 0;  // prompt rows beside decoding requests: bounds the time between two of their tokens
  int max_logits = 0;      // rows of a step whose logits are computed
  int max_active = 0;
  int max_blocks = 0;  // of the cache; at least what the longest possible request needs
  int block_tokens = 0;
};

struct LineEntry {
  int n_tokens = 0;         // known tokens: the prompt and what was generated
  int n_cached = 0;         // of them in the cache; always fewer, and 0 when not active
  bool all_logits = false;  // needs the logits of all its rows, not of the last one only
  // In the next step: an anchor is taken behind them. 0: it waits for an older request to compute what both begin with.
  int max_rows = std::numeric_limits<int>::max();

  [[nodiscard]] int pending() const { return n_tokens - n_cached; }
  [[nodiscard]] int rows_wanted() const { return std::min(pending(), max_rows); }
};

struct StepSchedule {
  int n_active = 0;       // the first of the line; fewer than before: the others lose their cache
  std::vector<int> rows;  // [n_active]; 0: not in this step
};

class Scheduler {
 public:
  // Throws kBadRequest for limits that contradict each other.
  explicit Scheduler(const SchedulerLimits& limits);

  // At least one row is scheduled unless the line is empty; the first in it must not wait.
  [[nodiscard]] StepSchedule next(std::span<const LineEntry> line, int n_active) const;

 private:
  [[nodiscard]] int blocks_for(const LineEntry& entry) const;
  [[nodiscard]] int choose_active(std::span<const LineEntry> line, int n_active) const;
  [[nodiscard]] std::vector<int> share_rows(std::span<const LineEntry> active) const;

  SchedulerLimits limits_;
};

}  // namespace fathom
