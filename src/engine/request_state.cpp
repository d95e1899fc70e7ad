#include "engine/request_state.h"

namespace fathom {

void RequestState::set_finished() {
  // Notified under the lock: a waiter may destroy this as soon as it is released.
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

bool RequestState::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void RequestState::wait() const {
  if (std::this_thread::get_id() == engine_thread_) {
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return finished_; });
}

}  // namespace fathom
