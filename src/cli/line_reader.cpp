#include "cli/line_reader.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <iostream>
#include <utility>

#include "cli/text_io.h"

namespace fathom::cli {

// Owns the libedit objects.
struct LineReader::Editor {
  explicit Editor(std::string text)
      : prompt(std::move(text)), edit(el_init("fathom", stdin, stderr, stderr)), lines(history_init()) {
    HistEvent event;
    history(lines, &event, H_SETSIZE, 1000);
    history(lines, &event, H_SETUNIQUE, 1);
    el_set(edit, EL_CLIENTDATA, this);
    el_set(
        edit, EL_PROMPT, +[](EditLine* self) -> char* {
          void* editor = nullptr;
          el_get(self, EL_CLIENTDATA, &editor);
          return static_cast<Editor*>(editor)->prompt.data();
        });
    el_set(edit, EL_HIST, history, lines);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 1);  // restores the terminal before a signal ends the program
  }
  ~Editor() {
    history_end(lines);
    el_end(edit);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  [[nodiscard]] std::optional<std::string> read() {
    int length = 0;
    const char* line = el_gets(edit, &length);
    if (line == nullptr || length <= 0) {
      std::fputc('\n', stderr);
      return std::nullopt;
    }
    if (length > 1) {
      HistEvent event;
      history(lines, &event, H_ENTER, line);
    }
    return std::string(line, static_cast<size_t>(length));
  }

  std::string prompt;
  EditLine* edit;
  History* lines;
};

LineReader::LineReader(std::string prompt) {
  if (stdin_is_terminal()) {
    // libedit reads characters in the encoding of the locale.
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
      std::setlocale(LC_CTYPE, "C.UTF-8");
    }
    editor_ = std::make_unique<Editor>(std::move(prompt));
  }
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read() {
  std::optional<std::string> line;
  if (editor_ != nullptr) {
    line = editor_->read();
  } else if (std::string text; std::getline(std::cin, text)) {
    line = std::move(text);
  }
  if (line && line->ends_with('\n')) {
    line->pop_back();
  }
  return line;
}

}  // namespace fathom::cli
