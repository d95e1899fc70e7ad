// Whole files and standard input as text; standard output that notices when nobody listens.
#pragma once

#include <string>
#include <string_view>

namespace fathom::cli {

// The bytes of a file; "-" is standard input. Throws Error kIo.
[[nodiscard]] std::string read_text(const std::string& path);

// How messages name what read_text() reads: the path, or "standard input" for "-".
[[nodiscard]] std::string text_name(const std::string& path);

// Writes to standard output and flushes: streamed text appears at once. Throws Error kIo (a full disk, a closed pipe).
void write_stdout(std::string_view text);

[[nodiscard]] bool stdin_is_terminal();
[[nodiscard]] bool stdout_is_terminal();
[[nodiscard]] bool stderr_is_terminal();

}  // namespace fathom::cli
