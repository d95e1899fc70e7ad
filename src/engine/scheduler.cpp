#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace fathom {
namespace {

void expect_at_least(const char* field, int value, int low, const char* why) {
  if (value < low) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: {}, expected at least {} ({})", field, value, low, why));
  }
}

// Hands out the prompt rows of one step.
class RowSharing {
 public:
  // `free_logits`: those beyond the one that every request may need in any case.
  RowSharing(std::span<const LineEntry> entries, std::span<int> rows, int free_rows, int free_logits)
      : entries_(entries), rows_(rows), free_rows_(free_rows), free_logits_(free_logits) {}

  [[nodiscard]] int free_rows() const { return free_rows_; }

  // Up to `wanted` more rows for request i; what it got.
  int grant(size_t i, int wanted) {
    int n = std::min({wanted, entries_[i].rows_wanted() - rows_[i], free_rows_});
    if (entries_[i].all_logits) {
      const int own = rows_[i] == 0 ? 1 : 0;
      n = std::min(n, free_logits_ + own);
      free_logits_ -= std::max(n - own, 0);
    }
    rows_[i] += n;
    free_rows_ -= n;
    return n;
  }

 private:
  std::span<const LineEntry> entries_;
  std::span<int> rows_;
  int free_rows_;
  int free_logits_;
};

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits) {
  expect_at_least("max_sequences", limits.max_active, 1, "sequences that run at once");
  expect_at_least("max_rows", limits.max_rows, limits.max_active, "a row for each of max_sequences");
  expect_at_least("max_logits", limits.max_logits, limits.max_active, "a row for each of max_sequences");
  expect_at_least("max_mixed_rows", limits.max_mixed_rows, 1, "prompts must advance beside decoding sequences");
}

StepSchedule Scheduler::next(std::span<const LineEntry> line, int n_active) const {
  StepSchedule schedule;
  schedule.n_active = choose_active(line, n_active);
  schedule.rows = share_rows(line.first(static_cast<size_t>(schedule.n_active)));
  return schedule;
}

// Blocks that a request owns when all its known tokens are cached.
int Scheduler::blocks_for(const LineEntry& entry) const {
  return (entry.n_tokens + limits_.block_tokens - 1) / limits_.block_tokens;
}

int Scheduler::choose_active(std::span<const LineEntry> line, int n_active) const {
  int blocks = 0;
  for (int i = 0; i < n_active; ++i) {
    blocks += blocks_for(line[static_cast<size_t>(i)]);
  }
  if (blocks > limits_.max_blocks) {
    while (blocks > limits_.max_blocks && n_active > 1) {
      blocks -= blocks_for(line[static_cast<size_t>(--n_active)]);
    }
    return n_active;
  }

  // A newcomer must leave every active request room for one more block, else it would soon be sent back.
  while (n_active < std::min(limits_.max_active, static_cast<int>(line.size()))) {
    const int with_next = blocks + blocks_for(line[static_cast<size_t>(n_active)]);
    if (n_active > 0 && with_next + n_active + 1 > limits_.max_blocks) {
      break;
    }
    blocks = with_next;
    ++n_active;
  }
  return n_active;
}

std::vector<int> Scheduler::share_rows(std::span<const LineEntry> active) const {
  std::vector<int> rows(active.size());
  std::vector<size_t> prompts;  // that can still take rows
  int n_decoding = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    if (active[i].pending() == 1) {
      rows[i] = active[i].rows_wanted();
      n_decoding += rows[i];
    } else if (active[i].rows_wanted() > 0) {
      prompts.push_back(i);
    }
  }
  if (prompts.empty()) {
    return rows;
  }
  const int n_active = static_cast<int>(active.size());
  const int free_rows =
      n_decoding == 0 ? limits_.max_rows : std::min(limits_.max_mixed_rows, limits_.max_rows - n_decoding);
  RowSharing sharing(active, rows, free_rows, limits_.max_logits - n_active);

  sharing.grant(prompts.front(), (free_rows + 1) / 2);
  while (sharing.free_rows() > 0 && !prompts.empty()) {
    const int share = std::max(sharing.free_rows() / static_cast<int>(prompts.size()), 1);
    std::vector<size_t> hungry;
    for (const size_t i : prompts) {
      if (sharing.grant(i, share) == share) {
        hungry.push_back(i);
      }
    }
    prompts = std::move(hungry);
  }
  return rows;
}

}  // namespace fathom
