#include "server/chat_constraint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/ordered_json.h"
#include "grammar/grammar_compiler.h"

namespace fathom {
namespace {

using Kind = ResponseFormat::Kind;

bool must_call(const ChatJob& job) {
  return job.tool_choice == ToolChoice::kRequired || job.tool_choice == ToolChoice::kNamed;
}

std::vector<CallableTool> callable_tools(const ChatJob& job) {
  std::vector<CallableTool> callable;
  for (const Tool& tool : job.tools) {
    if (job.tool_choice == ToolChoice::kNamed && tool.name != job.named_tool) {
      continue;
    }
    const auto definition = parse_ordered_json(tool.definition);
    const bool has_parameters = definition && definition->is_object() && definition->contains("parameters") &&
                                (*definition)["parameters"].is_object();
    callable.push_back({tool.name, has_parameters ? python_json((*definition)["parameters"]) : std::string{}});
  }
  return callable;
}

// JSON that a format asks for; empty: any object.
bool is_json(Kind kind) { return kind == Kind::kJsonObject || kind == Kind::kJsonSchema; }

GrammarCompiler::Compiled format_grammar(GrammarCompiler& grammars, const ResponseFormat& format) {
  switch (format.kind) {
    case Kind::kJsonObject:
      return grammars.json_object();
    case Kind::kJsonSchema:
      return grammars.json_schema(format.text);
    case Kind::kRegex:
      return grammars.regex(format.text);
    case Kind::kGrammar:
      return grammars.gbnf(format.text);
    case Kind::kText:
      break;
  }
  return nullptr;
}

}  // namespace

bool offers_tools(const ChatJob& job) { return job.tool_choice != ToolChoice::kNone && !job.tools.empty(); }

std::optional<GenerationConstraint> chat_constraint(const ServedModel& model, const ChatJob& job, bool reasons) {
  GrammarCompiler& grammars = *model.grammars;
  const ResponseFormat& format = job.response_format;
  if (!offers_tools(job) && format.kind == Kind::kText) {
    return std::nullopt;
  }
  const ChatTokens tokens = model.tokenizer.require_chat_tokens();
  if (!offers_tools(job)) {
    return constrain_reply(format_grammar(grammars, format), tokens, reasons);
  }
  // A named tool is called once.
  const bool parallel = job.parallel_tool_calls && job.tool_choice != ToolChoice::kNamed;
  if (must_call(job)) {
    return constrain_reply(grammars.tool_calls(callable_tools(job), {.parallel = parallel}), tokens, reasons);
  }
  if (is_json(format.kind)) {
    const std::string schema = format.kind == Kind::kJsonSchema ? format.text : R"({"type": "object"})";
    return constrain_reply(grammars.calls_or_json(callable_tools(job), {.parallel = parallel}, schema), tokens,
                           reasons);
  }
  if (format.kind != Kind::kText) {
    throw Error(ErrorCode::kBadRequest, "response_format: a regex or a grammar cannot be had together with tools");
  }
  try {
    return constrain_calls(grammars.tool_calls(callable_tools(job), {.parallel = parallel, .after_trigger = true}),
                           tokens);
  } catch (const Error& error) {
    log_warn(fmt::format("tools are offered without a grammar: {}", error.what()));
    return std::nullopt;
  }
}

}  // namespace fathom
