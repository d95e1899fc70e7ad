// Whether the engine still does what it is there for, judged from outside by its statistics.
#pragma once

#include <chrono>
#include <mutex>

#include "engine/engine.h"

namespace fathom {

// From any thread.
class EngineHealth {
 public:
  using Clock = std::chrono::steady_clock;

  // A step takes seconds at the very most; a device that hangs takes for ever.
  EngineHealth() : EngineHealth(std::chrono::minutes(3)) {}
  explicit EngineHealth(std::chrono::milliseconds patience) : patience_(patience) {}

  // False: requests are running but no step has ended for so long; or the last steps all failed, a short while ago.
  [[nodiscard]] bool check(const EngineStats& stats, Clock::time_point now = Clock::now());

 private:
  static constexpr uint64_t kFailuresInARow = 3;
  static constexpr std::chrono::seconds kRetryAfter{10};  // then requests may try again

  std::chrono::milliseconds patience_;
  std::mutex mutex_;
  uint64_t steps_ = 0;  // at the last check, as the next
  uint64_t steps_failed_ = 0;
  uint64_t failures_in_a_row_ = 0;
  Clock::time_point progress_ = Clock::now();
  Clock::time_point last_failure_ = {};
};

}  // namespace fathom
