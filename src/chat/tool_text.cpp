#include "chat/tool_text.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/ordered_json.h"

namespace fathom {
namespace {

// FATHOM_DSML is literal::kDsml, for literals that the compiler concatenates.
#define FATHOM_DSML "\uFF5CDSML\uFF5C"

// Texts of the official encoder, word for word.
constexpr std::string_view kBeforeSchemas =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "
    "\"<" FATHOM_DSML
    "tool_calls>\" block like the following:\n\n"
    "<" FATHOM_DSML
    "tool_calls>\n"
    "<" FATHOM_DSML
    "invoke name=\"$TOOL_NAME\">\n"
    "<" FATHOM_DSML "parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</" FATHOM_DSML
    "parameter>\n"
    "...\n"
    "</" FATHOM_DSML
    "invoke>\n"
    "<" FATHOM_DSML
    "invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</" FATHOM_DSML
    "invoke>\n"
    "</" FATHOM_DSML
    "tool_calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types (numbers, booleans, "
    "arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside "
    "<think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
constexpr std::string_view kAfterSchemas =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

constexpr std::string_view kOpenCalls = "\n\n<" FATHOM_DSML "tool_calls>\n";
constexpr std::string_view kCloseCalls = "</" FATHOM_DSML "tool_calls>";
constexpr std::string_view kOpenInvoke = "<" FATHOM_DSML "invoke name=\"";
constexpr std::string_view kCloseInvoke = "\n</" FATHOM_DSML "invoke>\n";
constexpr std::string_view kOpenParameter = "<" FATHOM_DSML "parameter name=\"";
constexpr std::string_view kCloseParameter = "</" FATHOM_DSML "parameter>";

#undef FATHOM_DSML

void write_parameter(PromptBuilder& prompt, std::string_view name, bool is_string, std::string_view value,
                     bool defuse) {
  prompt.control(kOpenParameter);
  prompt.content(name);
  prompt.control(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  if (defuse) {
    prompt.content_without(kCloseParameter, value);
  } else {
    prompt.content(value);
  }
  prompt.control(kCloseParameter);
}

void write_arguments(PromptBuilder& prompt, const std::string& arguments, bool defuse) {
  if (arguments.empty()) {
    return;
  }
  const auto parsed = parse_ordered_json(arguments);
  if (!parsed || !parsed->is_object()) {
    write_parameter(prompt, "arguments", true, arguments, defuse);
    return;
  }
  const char* separator = "";
  for (const auto& [name, value] : parsed->items()) {
    prompt.control(separator);
    separator = "\n";
    const bool is_string = value.is_string();
    write_parameter(prompt, name, is_string, is_string ? value.get_ref<const std::string&>() : python_json(value),
                    defuse);
  }
}

}  // namespace

void write_tools(PromptBuilder& prompt, const std::vector<Tool>& tools) {
  prompt.control(kBeforeSchemas);
  for (size_t i = 0; i < tools.size(); ++i) {
    prompt.control(i == 0 ? "" : "\n");
    prompt.content(tools[i].definition);
  }
  prompt.control(kAfterSchemas);
}

void write_calls(PromptBuilder& prompt, const std::vector<ToolCall>& calls, bool defuse) {
  prompt.control(kOpenCalls);
  for (const ToolCall& call : calls) {
    prompt.control(kOpenInvoke);
    prompt.content(call.name);
    prompt.control("\">\n");
    write_arguments(prompt, call.arguments, defuse);
    prompt.control(kCloseInvoke);
  }
  prompt.control(kCloseCalls);
}

}  // namespace fathom
