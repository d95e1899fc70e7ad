#include "server/open_ai_responses.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

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

// What the client calls a tool that the model knows under another name, or as a function though it is none.
struct ToolOrigin {
  bool custom = false;  // takes text: the model's argument "input"
  std::string name_space = {};
  std::string name = {};
};

using ToolOrigins = std::map<std::string, ToolOrigin>;

// A function in a namespace, as the model sees it.
std::string qualified(const std::string& name_space, const std::string& name) {
  return name_space.empty() ? name : fmt::format("{}.{}", name_space, name);
}

// Requests.

std::string required_text(const RequestFields& object, const char* key) {
  std::optional<std::string> text = object.text(key);
  if (!text) {
    object.fail(key, "a string");
  }
  return std::move(*text);
}

// The texts of the parts of a message, an item of reasoning or the output of a tool, whatever the parts are called.
std::string parts_text(const Json& parts, const std::string& name) {
  if (parts.is_string()) {
    return parts.get<std::string>();
  }
  if (!parts.is_array()) {
    throw Error(ErrorCode::kBadRequest, name + ": expected a string or an array of parts");
  }
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const RequestFields part(parts[i], fmt::format("{}[{}]", name, i));
    const std::optional<std::string> piece = part.has("refusal") ? part.text("refusal") : part.text("text");
    text += i == 0 ? "" : "\n\n";
    text += piece ? *piece : fmt::format("[Unsupported {}]", part.text("type").value_or("None"));
  }
  return text;
}

std::string member_text(const RequestFields& item, const char* key) {
  const Json* parts = item.find(key);
  return parts == nullptr ? std::string{} : parts_text(*parts, item.path(key));
}

ChatMessage read_message_item(const RequestFields& item) {
  const std::string role = required_text(item, "role");
  ChatMessage message;
  if (role == "assistant") {
    message.role = Role::kAssistant;
  } else if (role == "system" || role == "developer") {
    message.role = Role::kSystem;
  } else if (role != "user") {
    item.fail("role", "one of user, assistant, system, developer");
  }
  message.content = member_text(item, "content");
  return message;
}

void append_item(std::vector<ChatMessage>& messages, const RequestFields& item) {
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    messages.push_back(read_message_item(item));
  } else if (type == "reasoning") {
    std::string reasoning = member_text(item, "summary");
    if (reasoning.empty()) {
      reasoning = member_text(item, "content");
    }
    messages.push_back({.role = Role::kAssistant, .reasoning = std::move(reasoning)});
  } else if (type == "function_call" || type == "custom_tool_call") {
    const bool custom = type == "custom_tool_call";
    const std::string arguments =
        custom ? python_json({{"input", required_text(item, "input")}}) : item.text("arguments").value_or("");
    const std::string name = qualified(item.text("namespace").value_or(""), required_text(item, "name"));
    messages.push_back({.role = Role::kAssistant,
                        .tool_calls = {{.id = required_text(item, "call_id"), .name = name, .arguments = arguments}}});
  } else if (type == "function_call_output" || type == "custom_tool_call_output") {
    messages.push_back(
        {.role = Role::kTool, .content = member_text(item, "output"), .tool_call_id = required_text(item, "call_id")});
  } else if (type == "item_reference") {
    item.fail("type", "the item itself, for nothing is stored");
  }
  // What the provider's own tools did is not the model's to see.
}

std::vector<ChatMessage> read_input(const RequestFields& body) {
  std::vector<ChatMessage> messages;
  if (std::optional<std::string> instructions = body.text("instructions")) {
    messages.push_back({.role = Role::kSystem, .content = std::move(*instructions)});
  }
  const Json* input = body.find("input");
  if (input == nullptr || (!input->is_string() && !input->is_array())) {
    body.fail("input", "a string or an array of items");
  }
  if (input->is_string()) {
    messages.push_back({.role = Role::kUser, .content = input->get<std::string>()});
  }
  for (size_t i = 0; input->is_array() && i < input->size(); ++i) {
    append_item(messages, RequestFields((*input)[i], fmt::format("input[{}]", i)));
  }
  // Reasoning alone at the end is left from an answer that never came.
  while (!messages.empty() && messages.back().role == Role::kAssistant && messages.back().content.empty() &&
         messages.back().tool_calls.empty()) {
    messages.pop_back();
  }
  return messages;
}

// The tools of a list as functions, in `functions`; those of namespaces with their names in front.
void append_tools(const RequestFields& holder, const std::string& name_space, Json& functions, ToolOrigins& origins) {
  const Json* tools = holder.array("tools");
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const RequestFields tool((*tools)[i], fmt::format("{}[{}]", holder.path("tools"), i));
    const std::string type = required_text(tool, "type");
    if (type == "namespace" && name_space.empty()) {
      append_tools(tool, required_text(tool, "name"), functions, origins);
      continue;
    }
    if (type != "function" && type != "custom") {
      continue;  // the provider would run it itself
    }
    const std::string name = required_text(tool, "name");
    const std::string shown = qualified(name_space, name);
    Json function = {{"name", shown}};
    if (const std::optional<std::string> description = tool.text("description")) {
      function["description"] = *description;
    }
    if (type == "custom") {
      function["parameters"] = {{"type", "object"},
                                {"properties", {{"input", {{"type", "string"}}}}},
                                {"required", {"input"}},
                                {"additionalProperties", false}};
    } else if (const std::optional<RequestFields> parameters = tool.object("parameters")) {
      function["parameters"] = parameters->json();
    }
    functions.push_back(std::move(function));
    origins[shown] = {.custom = type == "custom", .name_space = name_space, .name = name};
  }
}

void read_tool_choice(const RequestFields& body, ChatJob& job) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) {
    return;
  }
  std::string mode;
  if (choice->is_string()) {
    mode = choice->get<std::string>();
  } else {
    const RequestFields object(*choice, "tool_choice");
    const std::string type = required_text(object, "type");
    if (type == "function" || type == "custom") {
      job.tool_choice = ToolChoice::kNamed;
      job.named_tool = qualified(object.text("namespace").value_or(""), required_text(object, "name"));
      return;
    }
    if (type != "allowed_tools") {
      object.fail("type", "one of function, custom, allowed_tools");
    }
    mode = object.text("mode").value_or("auto");
  }
  if (mode == "none") {
    job.tool_choice = ToolChoice::kNone;
  } else if (mode == "required") {
    job.tool_choice = ToolChoice::kRequired;
  } else if (mode != "auto") {
    body.fail("tool_choice", "one of auto, none, required, or a tool");
  }
}

void read_text_format(const RequestFields& body, ChatJob& job) {
  const std::optional<RequestFields> text = body.object("text");
  const std::optional<RequestFields> format = text ? text->object("format") : std::nullopt;
  if (!format) {
    return;
  }
  const std::string type = required_text(*format, "type");
  if (type == "json_object") {
    job.response_format.kind = ResponseFormat::Kind::kJsonObject;
  } else if (type == "json_schema") {
    const std::optional<RequestFields> schema = format->object("schema");
    if (!schema) {
      format->fail("schema", "an object");
    }
    job.response_format = {.kind = ResponseFormat::Kind::kJsonSchema, .text = python_json(schema->json())};
  } else if (type != "text") {
    format->fail("type", "one of text, json_object, json_schema");
  }
}

void refuse_state(const RequestFields& body) {
  for (const char* key : {"previous_response_id", "conversation"}) {
    if (body.has(key)) {
      body.fail(key, "null, for nothing is stored: send the whole conversation as input");
    }
  }
  if (body.flag("background").value_or(false)) {
    body.fail("background", "false");
  }
}

// Answers.

Json usage_json(const ChatUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// A response in progress: everything that does not change while it is written.
Json response_frame(const std::string& model, const RequestFields& body, const ChatJob& job) {
  const auto echo = [&body](const char* key, const Json& otherwise) {
    const Json* value = body.find(key);
    return value == nullptr ? otherwise : *value;
  };
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {{"id", object_id("resp_")},
          {"object", "response"},
          {"created_at", std::chrono::duration_cast<std::chrono::seconds>(now).count()},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", echo("instructions", nullptr)},
          {"max_output_tokens", echo("max_output_tokens", nullptr)},
          {"model", model},
          {"output", Json::array()},
          {"parallel_tool_calls", job.parallel_tool_calls},
          {"previous_response_id", nullptr},
          {"prompt_cache_key", echo("prompt_cache_key", nullptr)},
          {"reasoning", echo("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", false},
          {"temperature", job.sampling.temperature},
          {"text", echo("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", echo("tool_choice", "auto")},
          {"tools", echo("tools", Json::array())},
          {"top_p", job.sampling.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr},
          {"metadata", echo("metadata", Json::object())}};
}

// The items of a response as they grow, and the events that tell of it; a whole answer is one that grows in one step.
class ResponsesFormat final : public ChatFormat {
 public:
  ResponsesFormat(Json frame, ToolOrigins origins) : response_(std::move(frame)), origins_(std::move(origins)) {}

  std::string reply(const ChatReply& reply) override {
    const ChatAnswer& answer = reply.answers.front();
    if (!answer.reasoning.empty()) {
      add_text(Item::kReasoning, answer.reasoning);
    }
    if (!answer.content.empty()) {
      add_text(Item::kMessage, answer.content);
    }
    for (const ToolCall& call : answer.tool_calls) {
      begin_call(call.id, call.name);
      add_arguments(call.arguments);
      leave(true);
    }
    finish_ = answer.finish;
    leave(finish_ != ReplyFinish::kLength);
    return finished_response(reply.usage).dump();
  }

  std::string begin(const ChatUsage& /*usage*/) override {
    write("response.created", {{"response", response_}});
    write("response.in_progress", {{"response", response_}});
    return take();
  }

  std::string event(const ChatEvent& event) override {
    const ReplyEvent& reply = event.reply;
    switch (reply.kind) {
      case ReplyEvent::Kind::kReasoning:
        add_text(Item::kReasoning, reply.text);
        break;
      case ReplyEvent::Kind::kContent:
        add_text(Item::kMessage, reply.text);
        break;
      case ReplyEvent::Kind::kCallStart:
        begin_call(reply.id, reply.name);
        break;
      case ReplyEvent::Kind::kArguments:
        add_arguments(reply.text);
        break;
      case ReplyEvent::Kind::kCallEnd:
        leave(true);
        break;
      case ReplyEvent::Kind::kFinish:
        finish_ = reply.reason;
        leave(finish_ != ReplyFinish::kLength);
        break;
    }
    return take();
  }

  std::string end(const ChatUsage& usage) override {
    write(finish_ == ReplyFinish::kLength ? "response.incomplete" : "response.completed",
          {{"response", finished_response(usage)}});
    return take();
  }

  std::string error(const ApiError& error) override {
    const Json json = Json::parse(error_json(error, ApiFamily::kOpenAi, {}))["error"];
    response_["status"] = "failed";
    response_["error"] = {{"code", json["code"]}, {"message", json["message"]}};
    write("response.failed", {{"response", response_}});
    return take();
  }

 private:
  enum class Item : uint8_t { kNone, kReasoning, kMessage, kCall, kCustomCall };

  void write(std::string_view type, const Json& members) {
    Json json = {{"type", type}, {"sequence_number", sequence_number_++}};
    json.update(members);
    out_ += sse_event(type, json.dump());
  }
  // About the open item.
  void write_item(std::string_view type, const Json& members) {
    Json json = {{"item_id", item_["id"]}, {"output_index", response_["output"].size()}};
    json.update(members);
    write(type, json);
  }
  std::string take() { return std::exchange(out_, {}); }

  void begin_item(Item kind, Json item) {
    leave(true);
    kind_ = kind;
    item_ = std::move(item);
    text_.clear();
    write("response.output_item.added", {{"output_index", response_["output"].size()}, {"item", item_}});
  }

  // Text goes on in the open item of its kind, or in a new one.
  void add_text(Item kind, const std::string& text) {
    if (kind == Item::kReasoning) {
      if (kind_ != kind) {
        begin_reasoning();
      }
      write_item("response.reasoning_summary_text.delta", {{"summary_index", 0}, {"delta", text}});
    } else {
      if (kind_ != kind) {
        begin_message();
      }
      write_item("response.output_text.delta", {{"content_index", 0}, {"delta", text}, {"logprobs", Json::array()}});
    }
    text_ += text;
  }

  void begin_reasoning() {
    begin_item(
        Item::kReasoning,
        {{"id", object_id("rs_")}, {"type", "reasoning"}, {"status", "in_progress"}, {"summary", Json::array()}});
    write_item("response.reasoning_summary_part.added", {{"summary_index", 0}, {"part", summary_text("")}});
  }

  void begin_message() {
    begin_item(Item::kMessage, {{"id", object_id("msg_")},
                                {"type", "message"},
                                {"role", "assistant"},
                                {"status", "in_progress"},
                                {"content", Json::array()}});
    write_item("response.content_part.added", {{"content_index", 0}, {"part", output_text("")}});
  }

  void begin_call(const std::string& call_id, const std::string& shown) {
    const auto found = origins_.find(shown);
    const ToolOrigin origin = found == origins_.end() ? ToolOrigin{.name = shown} : found->second;
    Json item = {{"id", object_id(origin.custom ? "ctc_" : "fc_")},
                 {"type", origin.custom ? "custom_tool_call" : "function_call"},
                 {"status", "in_progress"},
                 {"call_id", call_id},
                 {"name", origin.name}};
    if (!origin.name_space.empty()) {
      item["namespace"] = origin.name_space;
    }
    item[origin.custom ? "input" : "arguments"] = "";
    begin_item(origin.custom ? Item::kCustomCall : Item::kCall, std::move(item));
  }

  // The text of a custom tool is inside its one argument, which is known when it has ended.
  void add_arguments(const std::string& text) {
    text_ += text;
    if (kind_ == Item::kCall) {
      write_item("response.function_call_arguments.delta", {{"delta", text}});
    }
  }

  // Ends the open item, if there is one.
  void leave(bool complete) {
    switch (kind_) {
      case Item::kNone:
        return;
      case Item::kReasoning:
        item_["summary"] = Json::array({summary_text(text_)});
        write_item("response.reasoning_summary_text.done", {{"summary_index", 0}, {"text", text_}});
        write_item("response.reasoning_summary_part.done", {{"summary_index", 0}, {"part", summary_text(text_)}});
        break;
      case Item::kMessage:
        item_["content"] = Json::array({output_text(text_)});
        write_item("response.output_text.done", {{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}});
        write_item("response.content_part.done", {{"content_index", 0}, {"part", output_text(text_)}});
        break;
      case Item::kCall:
        item_["arguments"] = text_;
        if (complete) {
          write_item("response.function_call_arguments.done", {{"arguments", text_}});
        }
        break;
      case Item::kCustomCall:
        if (complete) {
          item_["input"] = custom_input();
          write_item("response.custom_tool_call_input.delta", {{"delta", item_["input"]}});
          write_item("response.custom_tool_call_input.done", {{"input", item_["input"]}});
        }
        break;
    }
    item_["status"] = complete ? "completed" : "incomplete";
    write("response.output_item.done", {{"output_index", response_["output"].size()}, {"item", item_}});
    response_["output"].push_back(std::exchange(item_, {}));
    kind_ = Item::kNone;
  }

  // `text_` is a whole JSON object; a model that did not call the argument "input" meant it all.
  [[nodiscard]] std::string custom_input() const {
    const Json arguments = Json::parse(text_);
    const auto input = arguments.find("input");
    return input != arguments.end() && input->is_string() ? input->get<std::string>() : text_;
  }

  static Json summary_text(const std::string& text) { return {{"type", "summary_text"}, {"text", text}}; }
  static Json output_text(const std::string& text) {
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }

  Json& finished_response(const ChatUsage& usage) {
    if (finish_ == ReplyFinish::kLength) {
      response_["status"] = "incomplete";
      response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
      response_["status"] = "completed";
    }
    response_["usage"] = usage_json(usage);
    return response_;
  }

  Json response_;  // output: the items that have ended
  ToolOrigins origins_;
  int sequence_number_ = 0;
  Item kind_ = Item::kNone;
  Json item_;         // the open one
  std::string text_;  // its text or arguments so far
  ReplyFinish finish_ = ReplyFinish::kStop;
  std::string out_;  // events that were not handed out yet
};

}  // namespace

ChatExchange read_open_ai_responses(const ServedModel& model, const HttpRequest& /*request*/, const Json& json) {
  const RequestFields body(json);
  refuse_state(body);
  ChatExchange exchange;
  exchange.stream = body.flag("stream").value_or(false);
  ChatJob& job = exchange.job;
  job.messages = read_input(body);
  job.messages_field = "input";
  Json functions = Json::array();
  ToolOrigins origins;
  append_tools(body, {}, functions, origins);
  job.tools = read_tools(functions, "tools");
  read_tool_choice(body, job);
  job.parallel_tool_calls = body.flag("parallel_tool_calls").value_or(true);
  read_text_format(body, job);
  job.thinking = read_thinking(body, body.object("reasoning"), "effort", model.defaults.thinking);
  job.sampling = model.defaults.sampling;
  job.max_tokens = model.defaults.max_tokens;
  if (const auto max_tokens = body.integer("max_output_tokens", 1, INT32_MAX)) {
    job.max_tokens = static_cast<int>(*max_tokens);
  }
  if (const auto temperature = body.number("temperature")) {
    job.sampling.temperature = static_cast<float>(*temperature);
  }
  if (const auto top_p = body.number("top_p")) {
    job.sampling.top_p = static_cast<float>(*top_p);
  }
  job.prompt_cache_key = body.text("prompt_cache_key").value_or("");
  const std::string name = body.text("model").value_or(model.id);
  exchange.format = std::make_unique<ResponsesFormat>(response_frame(name, body, job), std::move(origins));
  return exchange;
}

}  // namespace fathom
