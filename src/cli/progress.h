// A progress bar on stderr, drawn only when stderr is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fathom::cli {

// Draws while it lives and wipes its line when it goes, so that what follows starts on a clean line.
class Progress {
 public:
  // `what` is at most a few words; `total` may be in any unit.
  Progress(std::string what, uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(uint64_t done);
  void advance(uint64_t n) { set(done_ + n); }

  // The line for a share in [0, 1]: "converting [=====>    ]  45 %".
  [[nodiscard]] static std::string line(const std::string& what, double share);

 private:
  std::string what_;
  uint64_t total_;
  uint64_t done_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point last_drawn_;
};

}  // namespace fathom::cli
