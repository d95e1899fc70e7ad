#include "chat/conversation.h"

#include <iterator>
#include <utility>

#include "core/error.h"

namespace fathom {
namespace {

bool is_instruction(const ChatMessage& message) {
  return message.role == Role::kSystem || message.role == Role::kDeveloper;
}

void append_paragraph(std::string& text, const std::string& paragraph) {
  if (!text.empty() && !paragraph.empty()) {
    text += "\n\n";
  }
  text += paragraph;
}

void merge_instruction(ChatMessage& system, ChatMessage more) {
  append_paragraph(system.content, more.content);
  if (!more.tools.empty()) {
    system.tools = std::move(more.tools);
  }
  if (!more.response_schema.empty()) {
    system.response_schema = std::move(more.response_schema);
  }
}

// Where what belongs to the whole conversation is written.
ChatMessage& front_instruction(std::vector<ChatMessage>& messages) {
  if (messages.empty() || !is_instruction(messages.front())) {
    messages.insert(messages.begin(), ChatMessage{.role = Role::kSystem});
  }
  return messages.front();
}

}  // namespace

std::vector<ChatMessage> for_generation(std::vector<ChatMessage> messages) {
  std::vector<ChatMessage> out;
  bool leading = true;
  for (ChatMessage& message : messages) {
    if (is_instruction(message) && leading) {
      message.role = Role::kSystem;
      if (out.empty()) {
        out.push_back(std::move(message));
      } else {
        merge_instruction(out.front(), std::move(message));
      }
      continue;
    }
    leading = false;
    if (is_instruction(message)) {
      if (!message.content.empty()) {
        out.push_back({.role = Role::kUser, .content = std::move(message.content)});
      }
    } else if (message.role == Role::kAssistant && !out.empty() && out.back().role == Role::kAssistant &&
               !out.back().task) {
      append_piece(out.back(), std::move(message));
    } else {
      out.push_back(std::move(message));
    }
  }
  if (leading) {
    throw Error(ErrorCode::kBadRequest, "messages: expected at least one that is not the system's, got none");
  }
  if (out.back().role == Role::kAssistant && !out.back().open_ended && !out.back().task) {
    throw Error(ErrorCode::kBadRequest,
                "messages: the last one is a finished answer; only one with \"prefix\": true can be continued");
  }
  return out;
}

void append_piece(ChatMessage& answer, ChatMessage piece) {
  append_paragraph(answer.reasoning, piece.reasoning);
  append_paragraph(answer.content, piece.content);
  answer.tool_calls.insert(answer.tool_calls.end(), std::make_move_iterator(piece.tool_calls.begin()),
                           std::make_move_iterator(piece.tool_calls.end()));
  answer.sampled = nullptr;
  answer.task = piece.task;
  answer.open_ended = piece.open_ended;
}

void offer_tools(std::vector<ChatMessage>& messages, std::vector<Tool> tools) {
  if (!tools.empty()) {
    front_instruction(messages).tools = std::move(tools);
  }
}

void require_schema(std::vector<ChatMessage>& messages, std::string schema) {
  if (!schema.empty()) {
    front_instruction(messages).response_schema = std::move(schema);
  }
}

std::string join_system_texts(const std::vector<std::string>& texts) {
  std::string joined;
  const char* separator = "";
  for (const std::string& text : texts) {
    if (!text.starts_with("x-anthropic-")) {
      joined += std::exchange(separator, "\n");
      joined += text;
    }
  }
  return joined;
}

}  // namespace fathom
