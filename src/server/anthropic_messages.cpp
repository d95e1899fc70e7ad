#include "server/anthropic_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "chat/conversation.h"
#include "chat/message_json.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "server/object_id.h"
#include "server/request_fields.h"
#include "server/sse.h"
#include "server/thinking_controls.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

// Requests.

std::string required_text(const RequestFields& object, const char* key) {
  std::optional<std::string> text = object.text(key);
  if (!text) {
    object.fail(key, "a string");
  }
  return std::move(*text);
}

// One block of an assistant's message, as a part of the answer it belongs to.
ChatMessage read_answer_block(const RequestFields& block, const std::string& type) {
  ChatMessage piece{.role = Role::kAssistant};
  if (type == "text") {
    piece.content = required_text(block, "text");
  } else if (type == "thinking") {
    piece.reasoning = required_text(block, "thinking");
  } else if (type == "tool_use") {
    const Json* input = block.find("input");
    piece.tool_calls.push_back({.id = block.text("id").value_or(""),
                                .name = required_text(block, "name"),
                                .arguments = input == nullptr ? "" : arguments_text(*input)});
  }
  return piece;  // of other kinds (redacted thinking, results of the provider's tools) nothing can be shown
}

ChatMessage read_user_block(const Json& json, const RequestFields& block, const std::string& type) {
  if (type == "tool_result") {
    const Json* content = block.find("content");
    return {.role = Role::kTool,
            .content = content == nullptr ? "" : content_text(*content, block.path("content")),
            .tool_call_id = required_text(block, "tool_use_id")};
  }
  return {.role = Role::kUser, .content = content_text(Json::array({json}), block.path("content"))};
}

void append_message(std::vector<ChatMessage>& messages, const RequestFields& message) {
  const std::string role = required_text(message, "role");
  if (role != "user" && role != "assistant" && role != "system") {
    message.fail("role", "one of user, assistant, system");
  }
  const Json* content = message.find("content");
  if (content == nullptr || (!content->is_string() && !content->is_array())) {
    message.fail("content", "a string or an array of blocks");
  }
  const bool assistant = role == "assistant";
  if (content->is_string() || role == "system") {
    messages.push_back({.role = assistant ? Role::kAssistant : (role == "user" ? Role::kUser : Role::kSystem),
                        .content = content_text(*content, message.path("content"))});
    return;
  }
  ChatMessage answer{.role = Role::kAssistant};
  for (size_t i = 0; i < content->size(); ++i) {
    const RequestFields block((*content)[i], fmt::format("{}[{}]", message.path("content"), i));
    const std::string type = required_text(block, "type");
    if (assistant) {
      append_piece(answer, read_answer_block(block, type));
    } else {
      messages.push_back(read_user_block((*content)[i], block, type));
    }
  }
  if (assistant) {
    messages.push_back(std::move(answer));
  }
}

std::vector<ChatMessage> read_conversation(const RequestFields& body) {
  std::vector<ChatMessage> messages;
  if (const Json* system = body.find("system")) {
    std::vector<std::string> texts;
    if (system->is_string()) {
      texts.push_back(system->get<std::string>());
    } else if (system->is_array()) {
      for (size_t i = 0; i < system->size(); ++i) {
        texts.push_back(required_text(RequestFields((*system)[i], fmt::format("system[{}]", i)), "text"));
      }
    } else {
      body.fail("system", "a string or an array of text blocks");
    }
    messages.push_back({.role = Role::kSystem, .content = join_system_texts(texts)});
  }
  const Json* list = body.array("messages");
  if (list == nullptr) {
    body.fail("messages", "an array");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    append_message(messages, RequestFields((*list)[i], fmt::format("messages[{}]", i)));
  }
  // An answer at the end is the beginning of the one that is asked for.
  if (!list->empty() && messages.back().role == Role::kAssistant) {
    if (!messages.back().tool_calls.empty()) {
      throw Error(
          ErrorCode::kBadRequest,
          fmt::format("messages[{}]: expected the results of its tool calls behind it, got nothing", list->size() - 1));
    }
    messages.back().open_ended = true;
  }
  return messages;
}

// Those that the client runs; what the provider would run itself is not offered.
std::vector<Tool> read_client_tools(const RequestFields& body) {
  const Json* tools = body.array("tools");
  Json own = Json::array();
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const RequestFields tool((*tools)[i], fmt::format("tools[{}]", i));
    if (tool.text("type").value_or("custom") == "custom") {
      if (tool.find("input_schema") == nullptr) {
        tool.fail("input_schema", "an object");
      }
      own.push_back((*tools)[i]);
    }
  }
  return read_tools(own, "tools");
}

void read_tool_choice(const RequestFields& body, ChatJob& job) {
  const std::optional<RequestFields> choice = body.object("tool_choice");
  if (!choice) {
    return;
  }
  const std::string type = required_text(*choice, "type");
  if (type == "any") {
    job.tool_choice = ToolChoice::kRequired;
  } else if (type == "none") {
    job.tool_choice = ToolChoice::kNone;
  } else if (type == "tool") {
    job.tool_choice = ToolChoice::kNamed;
    job.named_tool = required_text(*choice, "name");
  } else if (type != "auto") {
    choice->fail("type", "one of auto, any, tool, none");
  }
  job.parallel_tool_calls = !choice->flag("disable_parallel_tool_use").value_or(false);
}

// {"type": "json_schema", "schema": {...}}, where the API keeps it now and where it did before.
void read_output_format(const std::optional<RequestFields>& format, ChatJob& job) {
  if (!format) {
    return;
  }
  if (required_text(*format, "type") != "json_schema") {
    format->fail("type", "json_schema");
  }
  const std::optional<RequestFields> schema = format->object("schema");
  if (!schema) {
    format->fail("schema", "an object");
  }
  job.response_format = {.kind = ResponseFormat::Kind::kJsonSchema, .text = python_json(schema->json())};
}

ChatJob read_job(const ServedModel& model, const RequestFields& body) {
  ChatJob job;
  job.messages = read_conversation(body);
  job.tools = read_client_tools(body);
  read_tool_choice(body, job);
  const std::optional<RequestFields> config = body.object("output_config");
  job.thinking = read_thinking(body, config, "effort", model.defaults.thinking);
  read_output_format(config ? config->object("format") : body.object("output_format"), job);
  job.sampling = model.defaults.sampling;
  return job;
}

// Answers.

std::string_view stop_reason(ReplyFinish finish, const std::optional<std::string>& stop_string) {
  switch (finish) {
    case ReplyFinish::kLength:
      return "max_tokens";
    case ReplyFinish::kToolCalls:
      return "tool_use";
    case ReplyFinish::kStop:
      break;
  }
  return stop_string ? "stop_sequence" : "end_turn";
}

Json usage_json(const ChatUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

// Clients send it back and never look inside.
constexpr const char* kSignature = "fathom";

class AnthropicFormat final : public ChatFormat {
 public:
  AnthropicFormat(std::string model, std::string request_id)
      : model_(std::move(model)), request_id_(std::move(request_id)) {}

  std::string reply(const ChatReply& reply) override {
    const ChatAnswer& answer = reply.answers.front();
    Json content = Json::array();
    if (!answer.reasoning.empty()) {
      content.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", kSignature}});
    }
    if (!answer.content.empty() || answer.tool_calls.empty()) {
      content.push_back({{"type", "text"}, {"text", answer.content}});
    }
    for (const ToolCall& call : answer.tool_calls) {
      content.push_back(
          {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::parse(call.arguments)}});
    }
    Json message = empty_message(reply.usage);
    message["content"] = std::move(content);
    message["stop_reason"] = stop_reason(answer.finish, answer.stop_string);
    message["stop_sequence"] = stop_sequence(answer.stop_string);
    return message.dump();
  }

  std::string begin(const ChatUsage& usage) override {
    write({{"type", "message_start"}, {"message", empty_message(usage)}});
    return take();
  }

  std::string event(const ChatEvent& event) override {
    const ReplyEvent& reply = event.reply;
    switch (reply.kind) {
      case ReplyEvent::Kind::kReasoning:
        enter(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
        write_delta({{"type", "thinking_delta"}, {"thinking", reply.text}});
        break;
      case ReplyEvent::Kind::kContent:
        enter(Block::kText, {{"type", "text"}, {"text", ""}});
        write_delta({{"type", "text_delta"}, {"text", reply.text}});
        break;
      case ReplyEvent::Kind::kCallStart:
        leave();
        enter(Block::kToolUse,
              {{"type", "tool_use"}, {"id", reply.id}, {"name", reply.name}, {"input", Json::object()}});
        break;
      case ReplyEvent::Kind::kArguments:
        write_delta({{"type", "input_json_delta"}, {"partial_json", reply.text}});
        break;
      case ReplyEvent::Kind::kCallEnd:
        leave();
        break;
      case ReplyEvent::Kind::kFinish:
        finish_ = reply.reason;
        stop_string_ = event.stop_string;
        leave();
        if (!has_answer_) {
          enter(Block::kText, {{"type", "text"}, {"text", ""}});
          leave();
        }
        break;
    }
    return take();
  }

  std::string end(const ChatUsage& usage) override {
    write({{"type", "message_delta"},
           {"delta",
            {{"stop_reason", stop_reason(finish_, stop_string_)}, {"stop_sequence", stop_sequence(stop_string_)}}},
           {"usage", usage_json(usage)}});
    write({{"type", "message_stop"}});
    return take();
  }

  std::string error(const ApiError& error) override {
    return sse_event("error", error_json(error, ApiFamily::kAnthropic, request_id_));
  }

  std::string keep_alive() override {
    write({{"type", "ping"}});
    return take();
  }

 private:
  enum class Block : uint8_t { kNone, kThinking, kText, kToolUse };

  [[nodiscard]] Json empty_message(const ChatUsage& usage) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", usage_json(usage)}};
  }

  static Json stop_sequence(const std::optional<std::string>& stop_string) {
    return stop_string ? Json(*stop_string) : Json();
  }

  void write(const Json& json) { out_ += sse_event(json["type"].get_ref<const std::string&>(), json.dump()); }
  void write_delta(Json delta) {
    write({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
  }
  std::string take() { return std::exchange(out_, {}); }

  // Text goes on in the open block of its kind, or in a new one.
  void enter(Block block, Json content_block) {
    if (block_ == block) {
      return;
    }
    leave();
    block_ = block;
    has_answer_ = has_answer_ || block != Block::kThinking;
    ++index_;
    write({{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(content_block)}});
  }

  void leave() {
    if (block_ == Block::kNone) {
      return;
    }
    if (block_ == Block::kThinking) {
      write_delta({{"type", "signature_delta"}, {"signature", kSignature}});
    }
    write({{"type", "content_block_stop"}, {"index", index_}});
    block_ = Block::kNone;
  }

  std::string model_;
  std::string request_id_;
  std::string id_ = object_id("msg_");
  Block block_ = Block::kNone;
  int index_ = -1;           // of the block that was begun last
  bool has_answer_ = false;  // there was a block other than thinking
  ReplyFinish finish_ = ReplyFinish::kStop;
  std::optional<std::string> stop_string_;
  std::string out_;  // events that were not handed out yet
};

}  // namespace

ChatExchange read_anthropic_messages(const ServedModel& model, const HttpRequest& request, const Json& json) {
  const RequestFields body(json);
  ChatExchange exchange;
  exchange.job = read_job(model, body);
  exchange.stream = body.flag("stream").value_or(false);
  ChatJob& job = exchange.job;
  if (const auto max_tokens = body.integer("max_tokens", 1, INT32_MAX)) {
    job.max_tokens = static_cast<int>(*max_tokens);
  } else {
    job.max_tokens = model.defaults.max_tokens;
  }
  if (const auto temperature = body.number("temperature")) {
    job.sampling.temperature = static_cast<float>(*temperature);
  }
  if (const auto top_p = body.number("top_p")) {
    job.sampling.top_p = static_cast<float>(*top_p);
  }
  if (const auto top_k = body.integer("top_k", 0, INT32_MAX)) {
    job.sampling.top_k = static_cast<int>(*top_k);
  }
  job.stops = body.texts("stop_sequences");
  exchange.format = std::make_unique<AnthropicFormat>(body.text("model").value_or(model.id), request.id);
  return exchange;
}

HttpResponse count_anthropic_tokens(const Service& service, const HttpRequest& request) {
  const Json json = parse_body(request.body);
  const ChatJob job = read_job(service.model, RequestFields(json));
  const Json count = {{"input_tokens", ChatSession::prompt_tokens(service.model, job).size()}};
  return {.body = count.dump()};
}

}  // namespace fathom
