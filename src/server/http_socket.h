// One connection's socket with the limits that a server puts on strangers: how much, and how long.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

#include "server/http.h"

namespace fathom {

// Used by the connection's own thread.
class HttpSocket {
 public:
  // Does not own the socket. All outlive it. Once `broken` is true, nothing is waited for any more.
  HttpSocket(int fd, const HttpLimits& limits, const std::atomic<bool>& broken)
      : fd_(fd), limits_(limits), broken_(broken) {}

  // False: nothing came in time, the peer has left, or `stopping` became true.
  [[nodiscard]] bool wait_for_request(const std::atomic<bool>& stopping);
  // The head has been read.
  void begin_body() { in_head_ = false; }
  [[nodiscard]] bool head_too_large() const { return n_head_ > limits_.max_head_bytes; }

  // The peer closed its side, or broke off.
  [[nodiscard]] bool peer_gone() const;
  // Within the limits' patience.
  [[nodiscard]] bool readable() const;
  [[nodiscard]] bool writable() const;
  // Bytes read or written, 0 at the end, -1 on failure: also for too much, and too late.
  [[nodiscard]] ssize_t read(char* bytes, size_t size);
  [[nodiscard]] ssize_t write(const char* bytes, size_t size);

  // The request was not read to its end, so the connection cannot serve another one.
  void close_after_response() { closes_ = true; }
  [[nodiscard]] bool closes() const { return closes_; }
  // Lets the peer read the response before the unread rest of its request makes the kernel reset the connection.
  void linger();

  [[nodiscard]] std::string remote_address() const;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool wait(short events, std::chrono::milliseconds timeout) const;

  int fd_;
  const HttpLimits& limits_;
  const std::atomic<bool>& broken_;
  std::array<char, 16384> buffer_ = {};
  size_t begin_ = 0;  // received and not read yet: [begin_, end_) of buffer_
  size_t end_ = 0;
  bool in_head_ = true;
  size_t n_head_ = 0;
  Clock::time_point head_deadline_ = {};
  bool closes_ = false;
};

}  // namespace fathom
