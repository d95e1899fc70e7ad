#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/text_io.h"

namespace fathom::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr std::chrono::milliseconds kRedrawEvery{100};

}  // namespace

Progress::Progress(std::string what, uint64_t total)
    : what_(std::move(what)), total_(total), shown_(stderr_is_terminal()) {}

Progress::~Progress() {
  if (shown_) {
    std::fputs("\r\033[K", stderr);
  }
}

void Progress::set(uint64_t done) {
  done_ = done;
  if (!shown_) {
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < kRedrawEvery) {
    return;
  }
  last_drawn_ = now;
  const double share = total_ == 0 ? 1.0 : static_cast<double>(done_) / static_cast<double>(total_);
  std::fputs(fmt::format("\r\033[K{}", line(what_, share)).c_str(), stderr);
  std::fflush(stderr);
}

std::string Progress::line(const std::string& what, double share) {
  share = std::clamp(share, 0.0, 1.0);
  const int filled = static_cast<int>(share * kBarWidth);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kBarWidth) {
    bar += '>';
  }
  bar.resize(kBarWidth, ' ');
  return fmt::format("{} [{}] {:3.0f} %", what, bar, share * 100.0);
}

}  // namespace fathom::cli
