// A conversation as plain data: what the prompt renderer takes and the server makes of any API's request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace fathom {

// Roles as the model was trained on them. kDeveloper is not what APIs call "developer": it is a user turn that counts
// only until the next one (for_generation() in conversation.h maps the APIs' to system or user).
enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool, kDeveloper, kLatestReminder };

// Quick instructions: the message is followed by a token that asks for a label or a short text about it.
enum class Task : uint8_t { kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // JSON text, an object if all is well; empty counts as {}
};

struct Tool {
  std::string name = {};
  std::string definition = {};  // the function object, byte for byte as the prompt shows it
};

// An answer as the model wrote it: what comes between the mark that begins it, <think> or </think>, and its end mark.
struct SampledReply {
  std::string text = {};
  std::vector<TokenId> tokens = {};
  bool reasoned = false;  // it began after <think>
};

// Which members count depends on the role.
struct ChatMessage {
  Role role = Role::kUser;
  std::string content = {};
  std::string reasoning = {};             // assistant
  std::vector<ToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};          // tool: the call that `content` is the result of
  std::vector<Tool> tools = {};           // system, developer
  std::string response_schema = {};       // system, developer: JSON text as the prompt shows it
  std::optional<Task> task = {};
  bool open_ended = false;  // assistant: no end mark, the model goes on with it
  // assistant: stands in for reasoning, content and calls where the prompt would begin the answer with the same mark.
  std::shared_ptr<const SampledReply> sampled = {};
};

}  // namespace fathom
