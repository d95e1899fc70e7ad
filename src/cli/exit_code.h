// How a command ends: exit codes, and the exception for a command line that makes no sense.
#pragma once

#include <stdexcept>
#include <string>

namespace fathom::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;  // one line on stderr says why
inline constexpr int kExitUsage = 2;  // the command line itself is wrong

// Options that parsed one by one but contradict each other. main prints it and returns kExitUsage.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace fathom::cli
