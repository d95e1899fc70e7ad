#include "cli/process_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "cli/exit_code.h"
#include "core/file_map.h"
#include "support/temp_dir.h"

namespace fathom::cli {
namespace {

int read_last_byte_after_truncation(const std::string& path) {
  const FileMap map(path);
  report_lost_pages();
  std::filesystem::resize_file(path, 1);
  return std::to_integer<int>(map.bytes().back());
}

TEST(ProcessGuard, NamesAFileThatBecameShorter) {
  const test::TempDir dir;
  const std::string path = dir.write("model.gguf", std::string(1 << 20, 'x'));
  EXPECT_EXIT(std::exit(read_last_byte_after_truncation(path)), testing::ExitedWithCode(kExitError),
              "^fathom: error: " + path + ": cannot read: the file became shorter while in use, or its disk fails\n$");
}

TEST(ProcessGuard, LeavesOtherBusErrorsAlone) {
  const auto raise_bus_error = [] {
    report_lost_pages();
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_bus_error(), testing::KilledBySignal(SIGBUS), "^$");
}

// Exit code 0 when a file that is opened after the streams were closed is none of them.
int open_after_closing_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::close(fd);
  }
  reserve_standard_streams();
  const int fd = ::fileno(std::tmpfile());
  const bool output_fails = ::write(STDOUT_FILENO, "x", 1) < 0 && ::write(STDERR_FILENO, "x", 1) < 0;
  char c = 0;
  return fd > STDERR_FILENO && output_fails && ::read(STDIN_FILENO, &c, 1) < 0 ? 0 : 1;
}

TEST(ProcessGuard, ClosedStreamsAreNotReused) {
  EXPECT_EXIT(::_exit(open_after_closing_streams()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fathom::cli
