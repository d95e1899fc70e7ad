#include "server/engine_health.h"

#include <utility>

namespace fathom {

bool EngineHealth::check(const EngineStats& stats, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const uint64_t n_ended = stats.steps - std::exchange(steps_, stats.steps);
  const uint64_t n_failed = stats.steps_failed - std::exchange(steps_failed_, stats.steps_failed);
  if (n_ended > 0 || stats.running == 0) {
    progress_ = now;
  }
  if (n_failed > 0) {
    last_failure_ = now;
  }
  failures_in_a_row_ = n_ended > n_failed ? 0 : failures_in_a_row_ + n_failed;
  const bool fails = failures_in_a_row_ >= kFailuresInARow && now - last_failure_ < kRetryAfter;
  return now - progress_ <= patience_ && !fails;
}

}  // namespace fathom
