// A conversation as the text that the model was trained on. Pure text: no model, no tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/prompt_text.h"

namespace fathom {

enum class Role : uint8_t { kSystem, kUser, kAssistant };

struct ChatMessage {
  Role role = Role::kUser;
  std::string content;
};

// The checkpoints of April 2026 and those since 0731 spell reasoning effort differently (docs/model.md).
enum class ChatDialect : uint8_t { kPreview, kOfficial };

// kOff answers at once; the others think first.
enum class Thinking : uint8_t { kOff, kLow, kHigh, kMax };

struct ChatOptions {
  ChatDialect dialect = ChatDialect::kOfficial;
  Thinking thinking = Thinking::kOff;
};

// A rendered prompt. Control tokens count as such only inside `trusted`, the bytes that the renderer itself wrote:
// a "<think>" or an end-of-sentence mark that a user typed is ordinary text.
struct RenderedPrompt {
  std::string text;
  std::vector<TextSpan> trusted;  // ascending, disjoint
};

// The whole conversation, ending where the model has to answer when the last message is the user's. Reasoning of
// earlier answers is not part of `content` and not rendered, as in training.
[[nodiscard]] RenderedPrompt render_chat(const std::vector<ChatMessage>& messages, const ChatOptions& options);

// The text as it is, after the token that begins every document.
[[nodiscard]] RenderedPrompt render_raw(std::string_view text);

// What a model file says about itself; empty where it says nothing.
struct ModelLabels {
  std::string_view dialect = {};        // an explicit "official" or "preview"
  std::string_view chat_template = {};  // never interpreted: it only betrays the dialect
  std::string_view name = {};
  std::string_view base_version = {};
};

[[nodiscard]] std::optional<ChatDialect> dialect_from_name(std::string_view name) noexcept;  // "official", "preview"
[[nodiscard]] ChatDialect detect_dialect(const ModelLabels& labels) noexcept;

}  // namespace fathom
