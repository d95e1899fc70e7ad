#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

constexpr SchedulerLimits kLimits{
    .max_rows = 64, .max_mixed_rows = 16, .max_logits = 24, .max_active = 8, .max_blocks = 40, .block_tokens = 16};
constexpr int kMaxTokens = kLimits.max_blocks * kLimits.block_tokens;

LineEntry prompt(int n_tokens) { return {.n_tokens = n_tokens}; }
LineEntry decoding(int n_tokens) { return {.n_tokens = n_tokens, .n_cached = n_tokens - 1}; }

int sum(const std::vector<int>& values) { return std::accumulate(values.begin(), values.end(), 0); }

int blocks_of(const LineEntry& entry) { return (entry.n_tokens + kLimits.block_tokens - 1) / kLimits.block_tokens; }

// What every schedule promises, whatever the line looks like.
void expect_promises(const std::vector<LineEntry>& line, int n_active_before, const StepSchedule& schedule) {
  ASSERT_GE(schedule.n_active, line.empty() ? 0 : 1);
  ASSERT_LE(schedule.n_active, kLimits.max_active);
  ASSERT_EQ(schedule.rows.size(), static_cast<size_t>(schedule.n_active));
  int blocks = 0;
  int logits = 0;
  int prompt_rows = 0;
  int n_decoding = 0;
  for (int i = 0; i < schedule.n_active; ++i) {
    const LineEntry& entry = line[static_cast<size_t>(i)];
    const int rows = schedule.rows[static_cast<size_t>(i)];
    blocks += blocks_of(entry);
    logits += entry.all_logits ? rows : std::min(rows, 1);
    ASSERT_GE(rows, i == 0 ? 1 : 0) << "the oldest always advances";
    ASSERT_LE(rows, entry.pending());
    if (entry.pending() == 1) {
      ASSERT_EQ(rows, 1) << "every decoding request has its row in every step";
      ++n_decoding;
    } else {
      prompt_rows += rows;
    }
  }
  ASSERT_LE(sum(schedule.rows), kLimits.max_rows);
  ASSERT_LE(prompt_rows, n_decoding == 0 ? kLimits.max_rows : kLimits.max_mixed_rows);
  ASSERT_LE(logits, kLimits.max_logits);
  ASSERT_LE(blocks, kLimits.max_blocks);
  ASSERT_TRUE(schedule.n_active >= n_active_before ||
              blocks + blocks_of(line[static_cast<size_t>(schedule.n_active)]) > kLimits.max_blocks)
      << "cache is taken back only when the blocks run out";
}

TEST(Scheduler, StopsWhereAnAnchorIsDue) {
  std::vector<LineEntry> line{prompt(200), prompt(100), prompt(100)};
  line[0].max_rows = 20;
  EXPECT_EQ(Scheduler(kLimits).next(line, 3).rows, (std::vector<int>{20, 22, 22}));
  line[1].max_rows = 5;
  EXPECT_EQ(Scheduler(kLimits).next(line, 3).rows, (std::vector<int>{20, 5, 39}));
}

TEST(Scheduler, WhoeverWaitsTakesNoRows) {
  std::vector<LineEntry> line{prompt(200), prompt(100), decoding(50), decoding(60)};
  line[1].max_rows = 0;
  line[3].max_rows = 0;
  EXPECT_EQ(Scheduler(kLimits).next(line, 4).rows, (std::vector<int>{16, 0, 1, 0}));
}

TEST(Scheduler, LonePromptTakesTheWholeStep) {
  const std::vector<LineEntry> line{prompt(200)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 0).rows, (std::vector<int>{64}));
}

TEST(Scheduler, DecodingRequestsComeFirstAndBoundThePrompts) {
  const std::vector<LineEntry> line{decoding(20), prompt(200), decoding(30)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 3).rows, (std::vector<int>{1, 16, 1}));
}

TEST(Scheduler, OldestPromptTakesHalfAndTheRestIsShared) {
  const std::vector<LineEntry> line{prompt(100), prompt(100), prompt(100), prompt(100)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 0).rows, (std::vector<int>{40, 8, 8, 8}));
}

TEST(Scheduler, ShortPromptDoesNotWaitForALongOne) {
  const std::vector<LineEntry> line{prompt(400), prompt(10)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 0).rows, (std::vector<int>{54, 10}));
}

TEST(Scheduler, AllLogitsBoundTheRowsOfTheirRequestOnly) {
  std::vector<LineEntry> line{prompt(100), prompt(100)};
  line[0].all_logits = true;
  // 24 logit rows, one of them kept for the other request.
  EXPECT_EQ(Scheduler(kLimits).next(line, 0).rows, (std::vector<int>{23, 41}));
}

TEST(Scheduler, AdmitsInOrderOfArrivalOnly) {
  // 16 blocks of 40 each: the second fits, the third does not, and the short fourth must not overtake it.
  const std::vector<LineEntry> line{prompt(256), prompt(256), prompt(256), prompt(1)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 0).n_active, 2);
}

TEST(Scheduler, NewcomerLeavesRoomToGrow) {
  // 20 + 19 blocks are 39 of 40, but two requests may need one more each.
  const std::vector<LineEntry> line{decoding(320), prompt(304)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 1).n_active, 1);
  const std::vector<LineEntry> smaller{decoding(320), prompt(288)};
  EXPECT_EQ(Scheduler(kLimits).next(smaller, 1).n_active, 2);
}

TEST(Scheduler, YoungestGivesItsCacheBack) {
  const std::vector<LineEntry> line{decoding(321), decoding(304), decoding(16)};  // 21 + 19 + 1 blocks
  const StepSchedule schedule = Scheduler(kLimits).next(line, 3);
  EXPECT_EQ(schedule.n_active, 2);
  EXPECT_EQ(schedule.rows, (std::vector<int>{1, 1}));
}

TEST(Scheduler, LongestPossibleRequestRunsAlone) {
  const std::vector<LineEntry> line{prompt(kMaxTokens), prompt(1)};
  EXPECT_EQ(Scheduler(kLimits).next(line, 0).n_active, 1);
}

TEST(Scheduler, EmptyLineMakesAnEmptySchedule) {
  const StepSchedule schedule = Scheduler(kLimits).next({}, 0);
  EXPECT_EQ(schedule.n_active, 0);
  EXPECT_TRUE(schedule.rows.empty());
}

TEST(Scheduler, KeepsItsPromisesForEveryLine) {
  std::mt19937 random(31);
  const Scheduler scheduler(kLimits);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<LineEntry> line(random() % 14);
    const int n_active = static_cast<int>(std::min<size_t>(random() % 9, line.size()));
    for (int i = 0; i < static_cast<int>(line.size()); ++i) {
      LineEntry& entry = line[static_cast<size_t>(i)];
      entry.n_tokens = 1 + static_cast<int>(random() % (random() % 2 == 0 ? kMaxTokens : 40));
      entry.all_logits = random() % 4 == 0;
      if (i < n_active) {
        entry.n_cached = random() % 2 == 0 ? entry.n_tokens - 1 : static_cast<int>(random()) & 0xFFFF;
        entry.n_cached = std::min(entry.n_cached, entry.n_tokens - 1);
      }
    }
    expect_promises(line, n_active, scheduler.next(line, n_active));
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
}

// A whole life of a server: requests arrive at random, and all of them finish within the steps that their rows need.
TEST(Scheduler, EveryRequestFinishes) {
  std::mt19937 random(32);
  const Scheduler scheduler(kLimits);
  int n_sent_back = 0;
  for (int round = 0; round < 100; ++round) {
    struct Request {
      LineEntry entry;
      int final_tokens;
    };
    std::vector<Request> line;
    int n_arrived = 0;
    int n_finished = 0;
    int n_active = 0;
    int rows_needed = 0;
    int steps = 0;
    while (n_finished < 40) {
      if (n_arrived < 40 && random() % 3 == 0) {
        const int n_prompt = 1 + static_cast<int>(random() % 300);
        const int n_generate = 1 + static_cast<int>(random() % 100);
        line.push_back({prompt(n_prompt), std::min(n_prompt + n_generate, kMaxTokens + 1)});
        line.back().entry.all_logits = random() % 5 == 0;
        rows_needed += n_prompt + n_generate;
        ++n_arrived;
      }
      std::vector<LineEntry> entries;
      for (const Request& request : line) {
        entries.push_back(request.entry);
      }
      const StepSchedule schedule = scheduler.next(entries, n_active);
      expect_promises(entries, n_active, schedule);
      ASSERT_FALSE(HasFatalFailure());
      for (int i = schedule.n_active; i < n_active; ++i) {
        line[static_cast<size_t>(i)].entry.n_cached = 0;
        ++n_sent_back;
        rows_needed += line[static_cast<size_t>(i)].entry.n_tokens;
      }
      n_active = schedule.n_active;
      for (int i = 0; i < n_active; ++i) {
        LineEntry& entry = line[static_cast<size_t>(i)].entry;
        entry.n_cached += schedule.rows[static_cast<size_t>(i)];
        entry.n_tokens += static_cast<int>(entry.n_cached == entry.n_tokens);
      }
      const auto finished = [](const Request& r) { return r.entry.n_tokens == r.final_tokens; };
      const auto active_end = line.begin() + n_active;
      n_active -= static_cast<int>(std::count_if(line.begin(), active_end, finished));
      n_finished += static_cast<int>(std::erase_if(line, finished));
      ++steps;
      ASSERT_LE(steps, 200 + rows_needed) << "every step advances somebody";
    }
    EXPECT_EQ(n_active, 0);
    EXPECT_TRUE(line.empty());
  }
  EXPECT_GT(n_sent_back, 0);
}

TEST(Scheduler, RejectsLimitsThatContradict) {
  const auto with = [](auto spoil) {
    SchedulerLimits limits = kLimits;
    spoil(limits);
    return limits;
  };
  EXPECT_ERROR(Scheduler(with([](SchedulerLimits& l) { l.max_active = 0; })), ErrorCode::kBadRequest,
               "max_sequences: 0, expected at least 1 (sequences that run at once)");
  EXPECT_ERROR(Scheduler(with([](SchedulerLimits& l) { l.max_rows = 7; })), ErrorCode::kBadRequest,
               "max_rows: 7, expected at least 8 (a row for each of max_sequences)");
  EXPECT_ERROR(Scheduler(with([](SchedulerLimits& l) { l.max_logits = 7; })), ErrorCode::kBadRequest,
               "max_logits: 7, expected at least 8 (a row for each of max_sequences)");
  EXPECT_ERROR(Scheduler(with([](SchedulerLimits& l) { l.max_mixed_rows = 0; })), ErrorCode::kBadRequest,
               "max_mixed_rows: 0, expected at least 1 (prompts must advance beside decoding sequences)");
}

}  // namespace
}  // namespace fathom
