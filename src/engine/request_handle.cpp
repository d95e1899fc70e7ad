#include <utility>

#include "engine/generation.h"
#include "engine/request_state.h"

namespace fathom {

RequestHandle::~RequestHandle() { release(); }

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  RequestHandle old(std::exchange(state_, std::move(other.state_)));
  return *this;
}

void RequestHandle::cancel() noexcept { state_->cancel(); }

bool RequestHandle::finished() const { return state_->finished(); }

void RequestHandle::wait() const { state_->wait(); }

void RequestHandle::release() noexcept {
  if (state_) {
    state_->cancel();
    state_->wait();
  }
}

}  // namespace fathom
