// What a server needs of all this: grammars by the text that asks for them, kept for the next request, and the
// constraints that put them to work.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/tool_calls.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Safe to use from any thread. What compiles throws kBadRequest; the messages begin with what is at fault.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(const Tokenizer& tokenizer);

  using Compiled = std::shared_ptr<const TokenGrammar>;
  [[nodiscard]] Compiled json_schema(std::string_view schema);
  [[nodiscard]] Compiled json_object();
  [[nodiscard]] Compiled regex(std::string_view pattern);
  [[nodiscard]] Compiled gbnf(std::string_view text);
  [[nodiscard]] Compiled tool_calls(const std::vector<CallableTool>& tools, const ToolCallOptions& options);
  [[nodiscard]] Compiled calls_or_json(const std::vector<CallableTool>& tools, const ToolCallOptions& options,
                                       std::string_view schema);

 private:
  // The grammar kept under `key`, or a new one.
  Compiled get(std::string key, const std::function<Grammar()>& make);

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;                                  // of what follows
  std::list<std::pair<std::string, Compiled>> kept_;  // latest use first
  std::unordered_map<std::string_view, std::list<std::pair<std::string, Compiled>>::iterator> by_key_;
};

// The reply, or what follows </think> when the model is `thinking`, is a text of the grammar: an answer in JSON, or
// calls that have to come. While it thinks it can neither end nor call.
[[nodiscard]] GenerationConstraint constrain_reply(GrammarCompiler::Compiled grammar, const ChatTokens& tokens,
                                                   bool thinking);

// The model may say what it wants; once it opens a block of calls, that is a text of the grammar, which was made with
// ToolCallOptions::after_trigger. Nothing follows the block.
[[nodiscard]] GenerationConstraint constrain_calls(GrammarCompiler::Compiled grammar, const ChatTokens& tokens);

}  // namespace fathom
