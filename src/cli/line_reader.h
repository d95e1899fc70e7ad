// Lines from a person: with editing and history on a terminal, as they come otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace fathom::cli {

class LineReader {
 public:
  // The prompt is shown on a terminal only.
  explicit LineReader(std::string prompt);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Without the newline; empty at the end of input. Ctrl+C ends the program, as anywhere.
  [[nodiscard]] std::optional<std::string> read();

 private:
  struct Editor;

  std::unique_ptr<Editor> editor_;  // null when standard input is no terminal
};

}  // namespace fathom::cli
