#include "server/openai_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "chat/message_json.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "server/openai_chat_format.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"
#include "server/thinking_controls.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxChoices = 16;
constexpr size_t kMaxMessages = 65536;

// A tool choice is a word or {"type": "function", "function": {"name": ...}}.
void read_tool_choice(const RequestFields& request, ChatJob& job) {
  const Json* choice = request.find("tool_choice");
  if (choice == nullptr) {
    return;
  }
  if (choice->is_object()) {
    const RequestFields fields(*choice, request.path("tool_choice"));
    const std::optional<RequestFields> function = fields.object("function");
    const std::optional<std::string> name = function ? function->text("name") : fields.text("name");
    if (!name) {
      fields.fail("function", "an object with the name of a tool");
    }
    job.tool_choice = ToolChoice::kNamed;
    job.named_tool = *name;
  } else if (*choice == "none") {
    job.tool_choice = ToolChoice::kNone;
  } else if (*choice == "required" || *choice == "any") {
    job.tool_choice = ToolChoice::kRequired;
  } else if (*choice != "auto") {
    request.fail("tool_choice", "none, auto, required or a function");
  }
}

ResponseFormat read_response_format(const RequestFields& request) {
  const std::optional<RequestFields> format = request.object("response_format");
  const std::string type = format ? format->text("type").value_or("text") : "text";
  if (type == "text") {
    return {};
  }
  if (type == "json_object") {
    return {.kind = ResponseFormat::Kind::kJsonObject};
  }
  if (type == "json_schema") {
    const std::optional<RequestFields> wrapper = format->object("json_schema");
    const Json* schema = wrapper ? wrapper->find("schema") : format->find("schema");
    if (schema == nullptr || !schema->is_object()) {
      (wrapper ? *wrapper : *format).fail("schema", "an object");
    }
    return {.kind = ResponseFormat::Kind::kJsonSchema, .text = python_json(*schema)};
  }
  if (type == "regex" || type == "grammar") {
    const std::optional<std::string> text = format->text(type == "regex" ? "pattern" : "grammar");
    if (!text) {
      format->fail(type == "regex" ? "pattern" : "grammar", "a string");
    }
    return {.kind = type == "regex" ? ResponseFormat::Kind::kRegex : ResponseFormat::Kind::kGrammar, .text = *text};
  }
  format->fail("type", "text, json_object, json_schema, regex or grammar");
}

Thinking read_openai_thinking(const RequestFields& request, const std::string& model_name, Thinking otherwise) {
  ThinkingControls controls;
  if (model_name == "deepseek-chat") {
    otherwise = Thinking::kOff;
  } else if (model_name == "deepseek-reasoner" && otherwise == Thinking::kOff) {
    otherwise = Thinking::kHigh;
  }
  controls.on = read_thinking_switch(request);
  const auto take_effort = [&](const RequestFields& fields) {
    if (const auto effort = read_effort(fields, "reasoning_effort")) {
      controls.effort = effort;
    }
  };
  take_effort(request);
  if (const auto think = request.flag("think")) {
    controls.on = think;
  }
  if (const auto kwargs = request.object("chat_template_kwargs")) {
    for (const char* key : {"thinking", "enable_thinking"}) {
      if (const auto on = kwargs->flag(key)) {
        controls.on = on;
      }
    }
    take_effort(*kwargs);
  }
  return resolve_thinking(controls, otherwise);
}

std::optional<int> read_logprobs(const RequestFields& request) {
  const bool wanted = request.flag("logprobs").value_or(false);
  const auto top = request.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && !wanted) {
    throw Error(ErrorCode::kBadRequest, "top_logprobs: needs \"logprobs\": true");
  }
  return wanted ? std::optional(static_cast<int>(top.value_or(0))) : std::nullopt;
}

std::optional<int> read_max_tokens(const RequestFields& request, const std::optional<int>& otherwise) {
  for (const char* key : {"max_completion_tokens", "max_tokens"}) {
    if (const auto n = request.integer(key, 1, INT32_MAX)) {
      return static_cast<int>(*n);
    }
  }
  return otherwise;
}

void check_named_tool(const ChatJob& job) {
  const bool forced = job.tool_choice == ToolChoice::kNamed || job.tool_choice == ToolChoice::kRequired;
  if (forced && job.tools.empty()) {
    throw Error(ErrorCode::kBadRequest, "tool_choice: there are no tools to choose from");
  }
  const bool known = std::ranges::any_of(job.tools, [&](const Tool& tool) { return tool.name == job.named_tool; });
  if (job.tool_choice == ToolChoice::kNamed && !known) {
    throw Error(ErrorCode::kBadRequest, fmt::format("tool_choice: there is no tool named {}", job.named_tool));
  }
}

ChatJob read_job(const ServedModel& model, const RequestFields& request) {
  ChatJob job;
  const Json* messages = request.array("messages");
  if (messages == nullptr) {
    request.fail("messages", "an array");
  }
  if (messages->size() > kMaxMessages) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("messages: {} of them, expected at most {}", messages->size(), kMaxMessages));
  }
  job.messages = read_messages(*messages, "messages");
  if (const Json* tools = request.array("tools")) {
    job.tools = read_tools(*tools, "tools");
  }
  read_tool_choice(request, job);
  check_named_tool(job);
  job.parallel_tool_calls = request.flag("parallel_tool_calls").value_or(true);
  job.response_format = read_response_format(request);
  job.thinking = read_openai_thinking(request, request.text("model").value_or(""), model.defaults.thinking);
  if (const auto kwargs = request.object("chat_template_kwargs")) {
    job.drop_thinking = kwargs->flag("drop_thinking").value_or(true);
  }
  job.sampling = read_sampling(request, model.defaults.sampling, static_cast<int>(model.tokenizer.size()));
  job.max_tokens = read_max_tokens(request, model.defaults.max_tokens);
  job.stops = read_stops(request, "stop");
  job.n = static_cast<int>(request.integer("n", 1, kMaxChoices).value_or(1));
  job.logprobs = read_logprobs(request);
  job.prompt_cache_key = request.text("prompt_cache_key").value_or("");
  return job;
}

}  // namespace

ChatExchange read_openai_chat(const ServedModel& model, const HttpRequest&, const Json& body) {
  const RequestFields request(body);
  ChatExchange exchange;
  exchange.job = read_job(model, request);
  exchange.stream = request.flag("stream").value_or(false);
  bool include_usage = false;
  if (const auto options = request.object("stream_options")) {
    include_usage = options->flag("include_usage").value_or(false);
  }
  exchange.format = std::make_unique<OpenAiChatFormat>(model, request.text("model").value_or(model.id), include_usage,
                                                       exchange.job.n);
  return exchange;
}

}  // namespace fathom
