// A conversation as the text that the model was trained on. Pure text: no model, no tokenizer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/dialect.h"
#include "chat/message.h"
#include "core/prompt_text.h"

namespace fathom {

struct ChatOptions {
  ChatDialect dialect = ChatDialect::kOfficial;
  Thinking thinking = Thinking::kOff;
  // Reasoning of answers before the current turn is left out, as in training; with tools it always stays.
  bool drop_thinking = true;
  // The bytes and tokens of the official encoder even where a client's text breaks out of its place: all of the prompt
  // is trusted, and closing tags inside values and results are not defused.
  bool strict_official = false;
};

// A rendered prompt. Control tokens count as such only inside `trusted`, the bytes that the renderer itself wrote:
// a "<think>" or an end-of-sentence mark that a user typed is ordinary text.
struct RenderedPrompt {
  // Bytes of the text that a sampled reply stands for: their tokens are known, and others than the text alone gives.
  struct Sampled {
    TextSpan span;
    std::shared_ptr<const SampledReply> reply;
  };

  std::string text;
  std::vector<TextSpan> trusted;      // ascending, disjoint
  std::vector<Sampled> sampled = {};  // the same; each follows a control token, and one follows it
};

// The whole conversation, in any order of roles, ending where the model has to answer when the last message is a
// user's, a tool's or a developer's. Throws Error kBadRequest for a developer message without content.
[[nodiscard]] RenderedPrompt render_chat(const std::vector<ChatMessage>& messages, const ChatOptions& options);

// The text as it is, after the token that begins every document.
[[nodiscard]] RenderedPrompt render_raw(std::string_view text);

}  // namespace fathom
