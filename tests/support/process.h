// Runs a program and collects what it wrote: for tests of the command line.
#pragma once

#include <string>
#include <vector>

namespace fathom::test {

struct ProcessResult {
  int exit_code = 0;  // 128 + signal number when a signal ended it
  std::string out;
  std::string err;
};

struct ProcessOptions {
  std::string input;         // what stdin holds
  int timeout_s = 60;        // then the program is killed
  int signal_on_output = 0;  // sent when the first byte arrives on its stdout; 0: none
};

// Waits for the program. Throws std::runtime_error when it cannot be started or runs out of time.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options);

}  // namespace fathom::test
