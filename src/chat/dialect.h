// How a checkpoint wants its prompts written.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fathom {

// The checkpoints of April 2026 and those since 0731 spell reasoning effort differently (docs/chat.md).
enum class ChatDialect : uint8_t { kPreview, kOfficial };

// kOff answers at once; the others think first.
enum class Thinking : uint8_t { kOff, kLow, kHigh, kMax };

// What a prompt begins with to ask for this much effort; often nothing.
[[nodiscard]] std::string_view effort_text(ChatDialect dialect, Thinking thinking) noexcept;

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
