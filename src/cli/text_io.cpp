#include "cli/text_io.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace fathom::cli {
namespace {

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
  }
  if (std::ferror(file) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("{}: cannot read: {}", name, std::strerror(errno)));
  }
  return text;
}

}  // namespace

std::string text_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::string read_text(const std::string& path) {
  if (path == "-") {
    return read_all(stdin, text_name(path));
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    throw Error(ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  }
  return read_all(file.get(), path);
}

void write_stdout(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("standard output: cannot write: {}", std::strerror(errno)));
  }
}

bool stdin_is_terminal() { return isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace fathom::cli
