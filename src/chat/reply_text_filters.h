// Two small looks at the text of a reply as it streams by.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Whether the text is inside Markdown code, where markup is quoted rather than meant.
class CodeTracker {
 public:
  void feed(std::string_view text) {
    for (const char c : text) {
      feed(c);
    }
  }
  [[nodiscard]] bool in_code() const { return in_fence_ || (n_ticks_ % 2 == 1 && !is_fence_line_); }

 private:
  void feed(char c) {
    if (c == '\n') {
      n_ticks_ = 0;
      is_fence_line_ = false;
      at_line_start_ = true;
    } else if (c == '`') {
      ++n_ticks_;
      if (at_line_start_ && n_ticks_ == 3) {
        in_fence_ = !in_fence_;
        is_fence_line_ = true;
      }
    } else if (c != ' ' && c != '\t') {
      at_line_start_ = false;
    }
  }

  bool in_fence_ = false;
  bool is_fence_line_ = false;
  bool at_line_start_ = true;  // nothing but spaces and ticks so far
  int n_ticks_ = 0;            // on this line
};

// Text without the DSML mark: where no call was recognised, ASCII bars replace its own, which makes it text to any
// reader. Holds back what may become a mark.
class MarkFilter {
 public:
  [[nodiscard]] std::string push(std::string_view text);
  [[nodiscard]] std::string finish();

 private:
  std::string held_;
};

}  // namespace fathom
