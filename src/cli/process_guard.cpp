#include "cli/process_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cli/exit_code.h"

namespace fathom::cli {
namespace {

// Everything from here to on_bus_error() runs in a signal handler: system calls and the stack only.

// The lines of a file, each cut at the size of the buffer.
class SignalSafeLines {
 public:
  explicit SignalSafeLines(const char* path) : fd_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~SignalSafeLines() { ::close(fd_); }
  SignalSafeLines(const SignalSafeLines&) = delete;
  SignalSafeLines& operator=(const SignalSafeLines&) = delete;

  // False at the end. The line is valid until the next call.
  bool next(std::string_view& line) {
    size_t length = 0;
    char c = 0;
    while (next_byte(c)) {
      if (c == '\n') {
        line = {line_.data(), length};
        return true;
      }
      if (length < line_.size()) {
        line_[length++] = c;
      }
    }
    return false;
  }

 private:
  bool next_byte(char& c) {
    if (used_ == filled_) {
      const ssize_t n = ::read(fd_, buffer_.data(), buffer_.size());
      if (n <= 0) {
        return false;
      }
      filled_ = static_cast<size_t>(n);
      used_ = 0;
    }
    c = buffer_[used_++];
    return true;
  }

  int fd_;
  std::array<char, 4096> buffer_{};
  size_t used_ = 0;
  size_t filled_ = 0;
  std::array<char, PATH_MAX + 100> line_{};  // a line of /proc/self/maps: 73 characters, then a path
};

// Takes a hexadecimal number off the front.
uintptr_t take_hex(std::string_view& text) {
  uintptr_t value = 0;
  while (!text.empty()) {
    const char c = text.front();
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) {
      break;
    }
    value = value * 16 + static_cast<uintptr_t>(digit);
    text.remove_prefix(1);
  }
  return value;
}

// "start-end permissions offset device inode  path": the path where the range holds `address`, or nothing.
std::string_view mapped_path(std::string_view line, uintptr_t address) {
  const uintptr_t start = take_hex(line);
  line.remove_prefix(line.empty() ? 0 : 1);
  const uintptr_t end = take_hex(line);
  const size_t path = line.find('/');
  return address >= start && address < end && path != std::string_view::npos ? line.substr(path) : std::string_view{};
}

void write_stderr(std::string_view text) { static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size())); }

void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  static std::atomic_flag reported;
  while (reported.test_and_set()) {
    ::pause();  // another thread ends the process
  }
  SignalSafeLines lines("/proc/self/maps");
  std::string_view path;
  for (std::string_view line; path.empty() && lines.next(line);) {
    path = mapped_path(line, reinterpret_cast<uintptr_t>(info->si_addr));
  }
  if (path.empty()) {  // no file's page: a defect of the program, which shall be seen as such
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
    ::raise(signal);
    return;
  }
  write_stderr("fathom: error: ");
  write_stderr(path);
  write_stderr(": cannot read: the file became shorter while in use, or its disk fails\n");
  ::_exit(kExitError);
}

}  // namespace

void reserve_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) {
      // The lowest free descriptor, which is this one. In the wrong direction, so that its use fails.
      static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
  }
}

void report_lost_pages() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace fathom::cli
