// The text of a prompt as it grows, with a record of who wrote which bytes.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "chat/prompt.h"

namespace fathom {

class PromptBuilder {
 public:
  // Text of the renderer's own: literals of control tokens in it are meant.
  void control(std::string_view text) {
    const size_t begin = out_.text.size();
    out_.text += text;
    if (!out_.trusted.empty() && out_.trusted.back().end == begin) {
      out_.trusted.back().end = out_.text.size();
    } else if (!text.empty()) {
      out_.trusted.push_back({begin, out_.text.size()});
    }
  }

  // Text of somebody else, whatever it holds.
  void content(std::string_view text) { out_.text += text; }

  // The same, each `tag` in it made harmless: it would end the place that the text is written to.
  void content_without(std::string_view tag, std::string_view text) {
    for (size_t at = text.find(tag); at != std::string_view::npos; at = text.find(tag)) {
      content(text.substr(0, at));
      content("&lt;");
      content(tag.substr(1));
      text.remove_prefix(at + tag.size());
    }
    content(text);
  }

  // What the model wrote: its control tokens are meant.
  void sampled(const std::shared_ptr<const SampledReply>& reply) {
    const size_t begin = out_.text.size();
    control(reply->text);
    out_.sampled.push_back({{begin, out_.text.size()}, reply});
  }

  [[nodiscard]] RenderedPrompt take() { return std::move(out_); }

 private:
  RenderedPrompt out_;
};

}  // namespace fathom
