#include "chat/prompt.h"

#include <algorithm>

#include "chat/prompt_builder.h"
#include "chat/tool_text.h"
#include "chat/turns.h"
#include "core/error.h"

namespace fathom {
namespace {

constexpr std::string_view kResponseFormat =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";
constexpr std::string_view kOpenResult = "<tool_result>";
constexpr std::string_view kCloseResult = "</tool_result>";

std::string_view task_token(Task task) {
  switch (task) {
    case Task::kAction:
      return literal::kAction;
    case Task::kQuery:
      return literal::kQuery;
    case Task::kAuthority:
      return literal::kAuthority;
    case Task::kDomain:
      return literal::kDomain;
    case Task::kTitle:
      return literal::kTitle;
    case Task::kReadUrl:
      return literal::kReadUrl;
  }
  return {};
}

class ChatWriter {
 public:
  ChatWriter(const std::vector<ChatMessage>& messages, const ChatOptions& options)
      : options_(options), thinks_(options.thinking != Thinking::kOff), turns_(merge_turns(messages)) {
    const bool has_tools =
        std::any_of(messages.begin(), messages.end(), [](const ChatMessage& m) { return !m.tools.empty(); });
    drops_ = options.drop_thinking && !has_tools;
    if (thinks_ && drops_) {
      drop_old_developers(turns_);
    }
    last_request_ = last_request(turns_);
  }

  [[nodiscard]] RenderedPrompt write() {
    prompt_.control(literal::kBos);
    if (!turns_.empty()) {
      prompt_.control(effort_text(options_.dialect, options_.thinking));
    }
    for (size_t i = 0; i < turns_.size(); ++i) {
      write_turn(i);
      const bool answer_follows = i + 1 == turns_.size() || turns_[i + 1].role == Role::kAssistant ||
                                  turns_[i + 1].role == Role::kLatestReminder;
      if (answer_follows) {
        write_header(turns_[i], is_current(i));
      }
    }
    RenderedPrompt prompt = prompt_.take();
    if (options_.strict_official) {
      prompt.trusted = {{0, prompt.text.size()}};
    }
    return prompt;
  }

 private:
  // Whether reasoning is shown in the answer to, or in, turn i.
  [[nodiscard]] bool is_current(size_t i) const { return !drops_ || static_cast<int>(i) >= last_request_; }

  void write_turn(size_t i) {
    const Turn& turn = turns_[i];
    const ChatMessage& message = *turn.message;
    switch (turn.role) {
      case Role::kSystem:
        prompt_.content(message.content);
        write_attachments(message);
        break;
      case Role::kDeveloper:
        if (message.content.empty()) {
          throw Error(ErrorCode::kBadRequest, "messages: a developer message without content");
        }
        prompt_.control(literal::kUser);
        prompt_.content(message.content);
        write_attachments(message);
        break;
      case Role::kUser:
      case Role::kTool:
        write_user(turn);
        break;
      case Role::kLatestReminder:
        prompt_.control(literal::kLatestReminder);
        prompt_.content(message.content);
        break;
      case Role::kAssistant:
        write_answer(message, thinks_ && is_current(i) && (i == 0 || !turns_[i - 1].task));
        break;
    }
  }

  void write_attachments(const ChatMessage& message) {
    if (!message.tools.empty()) {
      prompt_.control("\n\n");
      write_tools(prompt_, message.tools);
    }
    if (!message.response_schema.empty()) {
      prompt_.control(kResponseFormat);
      prompt_.content(message.response_schema);
    }
  }

  void write_user(const Turn& turn) {
    std::string_view separator = literal::kUser;
    for (const TurnBlock& block : turn.blocks) {
      prompt_.control(separator);
      separator = "\n\n";
      if (!block.is_result) {
        prompt_.content(block.text);
        continue;
      }
      prompt_.control(kOpenResult);
      if (options_.strict_official) {
        prompt_.content(block.text);
      } else {
        prompt_.content_without(kCloseResult, block.text);
      }
      prompt_.control(kCloseResult);
    }
  }

  void write_answer(const ChatMessage& message, bool with_reasoning) {
    if (message.sampled && message.sampled->reasoned == with_reasoning && !message.open_ended) {
      prompt_.sampled(message.sampled);
      prompt_.control(literal::kEos);
      return;
    }
    if (with_reasoning) {
      prompt_.content(message.reasoning);
      prompt_.control(literal::kEndThink);
    }
    prompt_.content(message.content);
    if (!message.tool_calls.empty()) {
      write_calls(prompt_, message.tool_calls, !options_.strict_official);
    }
    if (!message.open_ended) {
      prompt_.control(literal::kEos);
    }
  }

  // What comes between a turn and the answer to it.
  void write_header(const Turn& turn, bool is_current) {
    if (turn.task == Task::kAction) {
      prompt_.control(literal::kAssistant);
      prompt_.control(thinks_ ? literal::kThink : literal::kEndThink);
    }
    if (turn.task) {
      prompt_.control(task_token(*turn.task));
    } else if (turn.is_request()) {
      prompt_.control(literal::kAssistant);
      prompt_.control(thinks_ && is_current ? literal::kThink : literal::kEndThink);
    }
  }

  const ChatOptions& options_;
  bool thinks_;
  bool drops_ = false;
  std::vector<Turn> turns_;
  int last_request_ = -1;
  PromptBuilder prompt_;
};

}  // namespace

RenderedPrompt render_chat(const std::vector<ChatMessage>& messages, const ChatOptions& options) {
  return ChatWriter(messages, options).write();
}

RenderedPrompt render_raw(std::string_view text) {
  PromptBuilder prompt;
  prompt.control(literal::kBos);
  prompt.content(text);
  return prompt.take();
}

}  // namespace fathom
