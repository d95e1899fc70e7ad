#include "chat/prompt.h"

#include <utility>

namespace fathom {
namespace {

// Texts of the official encoder, word for word.
constexpr std::string_view kAbsoluteMaximum =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, "
    "rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";
constexpr std::string_view kBeyondMaximum =
    "Reasoning Effort: Beyond maximum \u2014 exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the "
    "problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying "
    "cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are certain "
    "that no assumption remains unchecked and no error remains undiscovered.\n\n";

std::string_view effort_text(const ChatOptions& options) {
  const bool official = options.dialect == ChatDialect::kOfficial;
  switch (options.thinking) {
    case Thinking::kOff:
    case Thinking::kLow:
      return {};
    case Thinking::kHigh:
      return official ? kAbsoluteMaximum : std::string_view{};
    case Thinking::kMax:
      return official ? kBeyondMaximum : kAbsoluteMaximum;
  }
  return {};
}

class PromptBuilder {
 public:
  void control(std::string_view text) {
    const size_t begin = out_.text.size();
    out_.text += text;
    if (!out_.trusted.empty() && out_.trusted.back().end == begin) {
      out_.trusted.back().end = out_.text.size();
    } else {
      out_.trusted.push_back({begin, out_.text.size()});
    }
  }
  void content(std::string_view text) { out_.text += text; }
  [[nodiscard]] RenderedPrompt take() { return std::move(out_); }

 private:
  RenderedPrompt out_;
};

// Index of the last user message, where the turn that is being answered begins; 0 when there is none.
size_t current_turn(const std::vector<ChatMessage>& messages) {
  for (size_t i = messages.size(); i > 0; --i) {
    if (messages[i - 1].role == Role::kUser) {
      return i - 1;
    }
  }
  return 0;
}

}  // namespace

RenderedPrompt render_chat(const std::vector<ChatMessage>& messages, const ChatOptions& options) {
  PromptBuilder prompt;
  prompt.control(literal::kBos);
  prompt.content(effort_text(options));
  const size_t first_of_current_turn = current_turn(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool thinks = options.thinking != Thinking::kOff && i >= first_of_current_turn;
    const bool follows_user = i > 0 && messages[i - 1].role == Role::kUser;
    switch (messages[i].role) {
      case Role::kSystem:
        break;
      case Role::kUser:
        if (follows_user) {
          prompt.content("\n\n");  // one turn
        } else {
          prompt.control(literal::kUser);
        }
        break;
      case Role::kAssistant:
        if (thinks) {
          prompt.control(literal::kEndThink);  // its reasoning, which is empty
        }
        break;
    }
    prompt.content(messages[i].content);

    const bool answer_follows = i + 1 == messages.size() || messages[i + 1].role == Role::kAssistant;
    if (messages[i].role == Role::kAssistant) {
      prompt.control(literal::kEos);
    } else if (messages[i].role == Role::kUser && answer_follows) {
      prompt.control(literal::kAssistant);
      prompt.control(thinks ? literal::kThink : literal::kEndThink);
    }
  }
  return prompt.take();
}

RenderedPrompt render_raw(std::string_view text) {
  PromptBuilder prompt;
  prompt.control(literal::kBos);
  prompt.content(text);
  return prompt.take();
}

std::optional<ChatDialect> dialect_from_name(std::string_view name) noexcept {
  if (name == "official") {
    return ChatDialect::kOfficial;
  }
  if (name == "preview") {
    return ChatDialect::kPreview;
  }
  return std::nullopt;
}

ChatDialect detect_dialect(const ModelLabels& labels) noexcept {
  if (const auto named = dialect_from_name(labels.dialect)) {
    return *named;
  }
  const auto contains = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  if (contains(labels.chat_template, "Beyond maximum")) {
    return ChatDialect::kOfficial;
  }
  for (const std::string_view text : {labels.name, labels.base_version}) {
    if (contains(text, "0731") || contains(text, "0813")) {
      return ChatDialect::kOfficial;
    }
  }
  return ChatDialect::kPreview;
}

}  // namespace fathom
