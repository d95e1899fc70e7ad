#include "chat/dialect.h"

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

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::string_view effort_text(ChatDialect dialect, Thinking thinking) noexcept {
  const bool official = dialect == ChatDialect::kOfficial;
  switch (thinking) {
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
