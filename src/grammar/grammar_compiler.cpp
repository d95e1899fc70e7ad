#include "grammar/grammar_compiler.h"

#include <fmt/format.h>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/regex.h"

namespace fathom {
namespace {

constexpr size_t kMaxKept = 64;

// Of parts that may hold anything.
void append_part(std::string& key, std::string_view part) { key += fmt::format("{}:{}", part.size(), part); }

std::string tools_key(const char* kind, const std::vector<CallableTool>& tools, const ToolCallOptions& options) {
  std::string key = fmt::format("{}{:d}{:d}", kind, options.parallel, options.after_trigger);
  for (const CallableTool& tool : tools) {
    append_part(key, tool.name);
    append_part(key, tool.parameters);
  }
  return key;
}

}  // namespace

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer)
    : vocabulary_(std::make_shared<const GrammarVocabulary>(tokenizer)) {}

// Two threads may make the same grammar at once; one of them is kept. Making one takes milliseconds, rarely a second,
// and must not hold up the others.
GrammarCompiler::Compiled GrammarCompiler::get(std::string key, const std::function<Grammar()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return kept_.front().second;
    }
  }
  auto compiled = std::make_shared<const TokenGrammar>(make(), vocabulary_);
  compiled->prepare();
  const std::lock_guard lock(mutex_);
  if (!by_key_.contains(key)) {
    kept_.emplace_front(std::move(key), compiled);
    by_key_.emplace(kept_.front().first, kept_.begin());
    if (kept_.size() > kMaxKept) {
      by_key_.erase(kept_.back().first);
      kept_.pop_back();
    }
  }
  return compiled;
}

GrammarCompiler::Compiled GrammarCompiler::json_schema(std::string_view schema) {
  return get(fmt::format("schema {}", schema), [&] { return json_schema_grammar(schema); });
}

GrammarCompiler::Compiled GrammarCompiler::json_object() { return get("object", json_object_grammar); }

GrammarCompiler::Compiled GrammarCompiler::regex(std::string_view pattern) {
  return get(fmt::format("regex {}", pattern), [&] { return regex_grammar(pattern); });
}

GrammarCompiler::Compiled GrammarCompiler::gbnf(std::string_view text) {
  return get(fmt::format("gbnf {}", text), [&] { return parse_gbnf(text); });
}

GrammarCompiler::Compiled GrammarCompiler::tool_calls(const std::vector<CallableTool>& tools,
                                                      const ToolCallOptions& options) {
  return get(tools_key("calls", tools, options), [&] { return tool_calls_grammar(tools, options); });
}

GrammarCompiler::Compiled GrammarCompiler::calls_or_json(const std::vector<CallableTool>& tools,
                                                         const ToolCallOptions& options, std::string_view schema) {
  std::string key = tools_key("calls or JSON", tools, options);
  append_part(key, schema);
  return get(std::move(key), [&] { return calls_or_json_grammar(tools, options, std::string(schema)); });
}

GenerationConstraint constrain_reply(GrammarCompiler::Compiled grammar, const ChatTokens& tokens, bool thinking) {
  GenerationConstraint constraint{.grammar = std::move(grammar)};
  if (thinking) {
    constraint.trigger = {.token = tokens.end_think, .required = true, .forbidden_before = {tokens.dsml}};
  }
  return constraint;
}

GenerationConstraint constrain_calls(GrammarCompiler::Compiled grammar, const ChatTokens& tokens) {
  return {.grammar = std::move(grammar), .trigger = {{.token = tokens.dsml, .opens_line = true}}};
}

}  // namespace fathom
