#include "chat/message_json.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/printable.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, Role>, 6> kRoles = {{{"system", Role::kSystem},
                                                                      {"user", Role::kUser},
                                                                      {"assistant", Role::kAssistant},
                                                                      {"tool", Role::kTool},
                                                                      {"developer", Role::kDeveloper},
                                                                      {"latest_reminder", Role::kLatestReminder}}};
constexpr std::array<std::pair<std::string_view, Task>, 6> kTasks = {{{"action", Task::kAction},
                                                                      {"query", Task::kQuery},
                                                                      {"authority", Task::kAuthority},
                                                                      {"domain", Task::kDomain},
                                                                      {"title", Task::kTitle},
                                                                      {"read_url", Task::kReadUrl}}};

[[noreturn]] void fail(const std::string& name, std::string_view expected, const Json* got) {
  throw Error(ErrorCode::kBadRequest, fmt::format("{}: expected {}, got {}", name, expected,
                                                  got == nullptr ? "nothing" : printable(python_json(*got))));
}

// The member, or nullptr where it is missing or null.
const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_or_empty(const Json& object, const char* key, const std::string& name) {
  const Json* value = find(object, key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_string()) {
    fail(fmt::format("{}.{}", name, key), "a string", value);
  }
  return value->get<std::string>();
}

std::string required_text(const Json& object, const char* key, const std::string& name) {
  if (find(object, key) == nullptr) {
    fail(fmt::format("{}.{}", name, key), "a string", nullptr);
  }
  return text_or_empty(object, key, name);
}

bool flag(const Json& object, const char* key, const std::string& name) {
  const Json* value = find(object, key);
  if (value != nullptr && !value->is_boolean()) {
    fail(fmt::format("{}.{}", name, key), "true or false", value);
  }
  return value != nullptr && value->get<bool>();
}

template <class T, size_t kSize>
T choice(const std::array<std::pair<std::string_view, T>, kSize>& choices, const Json& value, const std::string& name) {
  std::string names;
  for (const auto& [text, meaning] : choices) {
    if (value.is_string() && value.get_ref<const std::string&>() == text) {
      return meaning;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", text);
  }
  fail(name, "one of " + names, &value);
}

void require_array(const Json& value, const std::string& name) {
  if (!value.is_array()) {
    fail(name, "an array", &value);
  }
}

void require_object(const Json& value, const std::string& name) {
  if (!value.is_object()) {
    fail(name, "an object", &value);
  }
}

ToolCall read_call(const Json& call, const std::string& name) {
  require_object(call, name);
  const Json* function = find(call, "function");
  const std::string function_name = name + ".function";
  if (function == nullptr) {
    fail(function_name, "an object", nullptr);
  }
  require_object(*function, function_name);
  ToolCall out{.id = text_or_empty(call, "id", name), .name = required_text(*function, "name", function_name)};
  if (out.id.empty()) {
    out.id = text_or_empty(*function, "id", function_name);
  }
  if (const Json* arguments = find(*function, "arguments")) {
    out.arguments = arguments_text(*arguments);
  }
  return out;
}

ChatMessage read_message(const Json& json, const std::string& name) {
  require_object(json, name);
  const Json* role = find(json, "role");
  if (role == nullptr) {
    fail(name + ".role", "a string", nullptr);
  }
  ChatMessage message;
  message.role = choice(kRoles, *role, name + ".role");
  if (const Json* content = find(json, "content")) {
    message.content = content_text(*content, name + ".content");
  }
  message.reasoning = text_or_empty(json, "reasoning_content", name);
  if (message.reasoning.empty()) {
    message.reasoning = text_or_empty(json, "reasoning", name);
  }
  if (const Json* calls = find(json, "tool_calls")) {
    require_array(*calls, name + ".tool_calls");
    for (size_t i = 0; i < calls->size(); ++i) {
      message.tool_calls.push_back(read_call((*calls)[i], fmt::format("{}.tool_calls[{}]", name, i)));
    }
  }
  message.tool_call_id = text_or_empty(json, "tool_call_id", name);
  if (const Json* tools = find(json, "tools")) {
    message.tools = read_tools(*tools, name + ".tools");
  }
  if (const Json* schema = find(json, "response_format")) {
    message.response_schema = python_json(*schema);
  }
  if (const Json* task = find(json, "task")) {
    message.task = choice(kTasks, *task, name + ".task");
  }
  message.open_ended = flag(json, "wo_eos", name) || flag(json, "prefix", name);
  return message;
}

// The function object in a tool, in the shape that the prompt shows.
Json function_object(const Json& tool, const std::string& name) {
  if (const Json* function = find(tool, "function")) {
    require_object(*function, name + ".function");
    return *function;
  }
  Json function = Json::object();
  if (const Json* schema = find(tool, "input_schema")) {
    function["name"] = tool.value("name", Json());
    if (const Json* description = find(tool, "description")) {
      function["description"] = *description;
    }
    function["parameters"] = *schema;
    return function;
  }
  function = tool;
  function.erase("type");
  return function;
}

}  // namespace

std::vector<ChatMessage> read_messages(const Json& messages, const std::string& name) {
  require_array(messages, name);
  std::vector<ChatMessage> out;
  out.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    out.push_back(read_message(messages[i], fmt::format("{}[{}]", name, i)));
  }
  return out;
}

std::vector<Tool> read_tools(const Json& tools, const std::string& name) {
  require_array(tools, name);
  std::vector<Tool> out;
  out.reserve(tools.size());
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string tool_name = fmt::format("{}[{}]", name, i);
    require_object(tools[i], tool_name);
    const Json function = function_object(tools[i], tool_name);
    out.push_back({.name = required_text(function, "name", tool_name), .definition = python_json(function)});
  }
  return out;
}

std::string arguments_text(const Json& arguments) {
  if (arguments.is_null()) {
    return {};
  }
  return arguments.is_string() ? arguments.get<std::string>() : python_json(arguments);
}

std::string content_text(const Json& content, const std::string& name) {
  if (content.is_null()) {
    return {};
  }
  if (content.is_string()) {
    return content.get<std::string>();
  }
  if (!content.is_array()) {
    fail(name, "a string or an array of parts", &content);
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part_name = fmt::format("{}[{}]", name, i);
    require_object(content[i], part_name);
    const std::string type = text_or_empty(content[i], "type", part_name);
    text += i == 0 ? "" : "\n\n";
    if (type == "text") {
      text += text_or_empty(content[i], "text", part_name);
    } else {
      text += fmt::format("[Unsupported {}]", type.empty() ? "None" : type);
    }
  }
  return text;
}

}  // namespace fathom
