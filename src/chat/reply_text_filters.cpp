#include "chat/reply_text_filters.h"

#include <algorithm>
#include <utility>

#include "core/prompt_text.h"

namespace fathom {

std::string MarkFilter::push(std::string_view text) {
  held_ += text;
  std::string out;
  size_t pos = 0;
  for (size_t at = held_.find(literal::kDsml); at != std::string::npos; at = held_.find(literal::kDsml, pos)) {
    out.append(held_, pos, at - pos);
    out += "|DSML|";
    pos = at + literal::kDsml.size();
  }
  size_t keep = std::min(literal::kDsml.size() - 1, held_.size() - pos);
  while (!std::string_view(held_).ends_with(literal::kDsml.substr(0, keep))) {
    --keep;
  }
  out.append(held_, pos, held_.size() - keep - pos);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string MarkFilter::finish() { return std::exchange(held_, {}); }

}  // namespace fathom
