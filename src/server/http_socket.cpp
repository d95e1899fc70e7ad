#include "server/http_socket.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fathom {
namespace {

using std::chrono::milliseconds;

template <class Call>
auto retry(const Call& call) -> decltype(call()) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

}  // namespace

bool HttpSocket::wait_for_request(const std::atomic<bool>& stopping) {
  constexpr milliseconds kStep{200};
  const auto deadline = Clock::now() + limits_.idle_timeout;
  while (!stopping && Clock::now() < deadline) {
    if (wait(POLLIN, kStep)) {
      in_head_ = true;
      n_head_ = 0;
      head_deadline_ = Clock::now() + limits_.head_timeout;
      return begin_ < end_ || !peer_gone();
    }
  }
  return false;
}

bool HttpSocket::peer_gone() const {
  char byte = 0;
  const ssize_t n = retry([&] { return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT); });
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

bool HttpSocket::readable() const { return wait(POLLIN, limits_.body_timeout); }
bool HttpSocket::writable() const { return wait(POLLOUT, limits_.write_timeout); }

ssize_t HttpSocket::read(char* bytes, size_t size) {
  milliseconds patience = limits_.body_timeout;
  if (in_head_) {
    if (head_too_large()) {
      return -1;
    }
    patience = std::max(std::chrono::duration_cast<milliseconds>(head_deadline_ - Clock::now()), milliseconds(0));
  }
  if (begin_ == end_) {
    if (!wait(POLLIN, patience)) {
      return -1;
    }
    const ssize_t n = retry([&] { return ::recv(fd_, buffer_.data(), buffer_.size(), 0); });
    if (n <= 0) {
      return n;
    }
    begin_ = 0;
    end_ = static_cast<size_t>(n);
  }
  const size_t n = std::min(size, end_ - begin_);
  std::memcpy(bytes, buffer_.data() + begin_, n);
  begin_ += n;
  if (in_head_) {
    n_head_ += n;
  }
  return static_cast<ssize_t>(n);
}

ssize_t HttpSocket::write(const char* bytes, size_t size) {
  if (!writable()) {
    return -1;
  }
  return retry([&] { return ::send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

void HttpSocket::linger() {
  ::shutdown(fd_, SHUT_WR);
  const auto deadline = Clock::now() + milliseconds(1000);
  begin_ = end_ = 0;
  while (Clock::now() < deadline && wait(POLLIN, milliseconds(100)) &&
         ::recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) > 0) {
  }
}

std::string HttpSocket::remote_address() const {
  sockaddr_storage name = {};
  socklen_t size = sizeof name;
  std::array<char, NI_MAXHOST> host = {};
  if (::getpeername(fd_, reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&name), size, host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return host.data();
}

bool HttpSocket::wait(short events, milliseconds timeout) const {
  if ((events & POLLIN) != 0 && begin_ < end_) {
    return true;
  }
  constexpr milliseconds kStep{200};
  const auto deadline = Clock::now() + timeout;
  for (milliseconds left = timeout; !broken_;
       left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now())) {
    pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
    const milliseconds step = std::clamp(left, milliseconds(0), kStep);
    if (retry([&] { return ::poll(&poll_fd, 1, static_cast<int>(step.count())); }) > 0) {
      return true;
    }
    if (left <= kStep) {
      return false;
    }
  }
  return false;
}

}  // namespace fathom
