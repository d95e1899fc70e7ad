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

// Waits for the program; stdin holds `input`. Throws std::runtime_error when it cannot be started, and after
// `timeout_s` seconds, when the program is killed.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& input = {},
                                        int timeout_s = 60);

}  // namespace fathom::test
