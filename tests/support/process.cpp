#include "support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace fathom::test {
namespace {

// Owns both ends of a pipe.
struct Pipe {
  std::array<int, 2> fd{-1, -1};

  Pipe() {
    if (::pipe2(fd.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe: " + std::string(std::strerror(errno)));
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_end(size_t end) {
    if (fd[end] >= 0) {
      ::close(fd[end]);
      fd[end] = -1;
    }
  }
};

pid_t spawn(const std::vector<std::string>& arguments, const Pipe& in, const Pipe& out, const Pipe& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.fd[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.fd[1], STDERR_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error(arguments[0] + ": " + std::strerror(error));
  }
  return pid;
}

// Appends what is there to `text`; false at the end of the stream.
bool drain(int fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n > 0) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return n > 0 || (n < 0 && errno == EINTR);
}

// Feeds the input and reads both outputs until the program closes them; false when time runs out.
bool communicate(pid_t pid, Pipe& in, Pipe& out, Pipe& err, const ProcessOptions& options, ProcessResult& result) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(options.timeout_s);
  const std::string& input = options.input;
  int pending_signal = options.signal_on_output;
  size_t written = 0;
  while (out.fd[0] >= 0 || err.fd[0] >= 0) {
    if (written == input.size()) {
      in.close_end(1);
    }
    std::array<pollfd, 3> polled{{{out.fd[0], POLLIN, 0}, {err.fd[0], POLLIN, 0}, {in.fd[1], POLLOUT, 0}}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || ::poll(polled.data(), polled.size(), static_cast<int>(left.count())) == 0) {
      return false;
    }
    if (polled[0].revents != 0 && !drain(out.fd[0], result.out)) {
      out.close_end(0);
    }
    if (pending_signal != 0 && !result.out.empty()) {
      ::kill(pid, std::exchange(pending_signal, 0));
    }
    if (polled[1].revents != 0 && !drain(err.fd[0], result.err)) {
      err.close_end(0);
    }
    if (polled[2].revents != 0) {
      const ssize_t n = ::write(in.fd[1], input.data() + written, input.size() - written);
      written = n < 0 ? input.size() : written + static_cast<size_t>(n);  // it may end without reading all
    }
  }
  return true;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe in;
  Pipe out;
  Pipe err;
  ::fcntl(in.fd[1], F_SETFL, O_NONBLOCK);
  const pid_t pid = spawn(arguments, in, out, err);
  in.close_end(0);
  out.close_end(1);
  err.close_end(1);

  ProcessResult result;
  const bool finished = communicate(pid, in, out, err, options, result);
  if (!finished) {
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!finished) {
    throw std::runtime_error(arguments[0] + ": no end after " + std::to_string(options.timeout_s) +
                             " s; stderr: " + result.err);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace fathom::test
