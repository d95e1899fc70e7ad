// Messages and tools as JSON clients send them: OpenAI's shape, with the fields that DeepSeek's encoder adds to it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "chat/message.h"

namespace fathom {

// All of these throw Error kBadRequest that begins with the path of the offending member ("messages[2].role: ...").

// `name` is where the array stands. Lists of content parts become one text; unknown members are ignored.
[[nodiscard]] std::vector<ChatMessage> read_messages(const nlohmann::ordered_json& messages, const std::string& name);

// {type, function: {...}}, the flat shape of the responses API, or Anthropic's {name, description, input_schema}.
[[nodiscard]] std::vector<Tool> read_tools(const nlohmann::ordered_json& tools, const std::string& name);

// Arguments as text, whichever way the client sends them: a string, an object, or nothing.
[[nodiscard]] std::string arguments_text(const nlohmann::ordered_json& arguments);

// The texts of a list of content parts, joined by an empty line; parts that hold no text are named.
[[nodiscard]] std::string content_text(const nlohmann::ordered_json& content, const std::string& name);

}  // namespace fathom
