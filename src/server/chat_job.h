// A chat generation as plain data: what every API's request is read into. Nothing in it belongs to one API.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/dialect.h"
#include "chat/message.h"
#include "sampling/sampling_params.h"

namespace fathom {

enum class ToolChoice : uint8_t {
  kAuto,      // the model decides
  kNone,      // no tools are offered, whatever `tools` holds
  kRequired,  // at least one call
  kNamed,     // a call of `ChatJob::named_tool`
};

// What the answer (not the reasoning before it) has to look like.
struct ResponseFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kGrammar };

  Kind kind = Kind::kText;
  std::string text = {};  // the schema as JSON in the client's order of keys; the expression; the grammar
};

struct ChatJob {
  // The conversation as the client sent it; ChatSession arranges it for the model (for_generation()).
  std::vector<ChatMessage> messages;
  std::string messages_field = "messages";  // what the API calls it, for errors

  std::vector<Tool> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;
  bool parallel_tool_calls = true;  // false: at most one call
  ResponseFormat response_format;

  Thinking thinking = Thinking::kHigh;
  bool drop_thinking = true;  // of earlier turns, where the model was trained to see none

  SamplingParams sampling;         // with n > 1, choice i draws with seed + i
  std::optional<int> max_tokens;   // reasoning included; clipped to the rest of the context, which is the default
  std::vector<std::string> stops;  // looked for in content only
  int n = 1;                       // answers, independent of each other
  std::optional<int> logprobs;     // with so many alternatives; unset: none

  std::string prompt_cache_key;  // a client's hint which requests share a prefix
};

}  // namespace fathom
