// The tokens of a model as a grammar sees them. Shared by all grammars for one model; safe to use from any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/token_table.h"
#include "grammar/token_trie.h"

namespace fathom {

class Tokenizer;

class GrammarVocabulary {
 public:
  explicit GrammarVocabulary(const Tokenizer& tokenizer);
  // `bytes` by token, empty for those that are no text; `tokens`: the literals of these.
  GrammarVocabulary(std::vector<std::string> bytes, std::unordered_map<std::string, TokenId> tokens);

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  // Of tokens that are text; empty for control tokens, markup like <think>, and unused rows.
  [[nodiscard]] const std::vector<std::string>& bytes() const { return bytes_; }
  [[nodiscard]] const TokenTrie& trie() const { return trie_; }
  // The token that is no text and has this literal.
  [[nodiscard]] std::optional<TokenId> find_token(std::string_view literal) const;

  // The table of a state in a rule without calls, made at most once for all grammars.
  [[nodiscard]] std::shared_ptr<const TokenTable> shared_table(const Automaton& automaton, uint32_t state) const;

 private:
  std::vector<std::string> bytes_;  // by token
  TokenTrie trie_;
  std::unordered_map<std::string, TokenId> tokens_;

  mutable std::mutex mutex_;  // of what follows
  mutable std::unordered_map<std::string, std::shared_ptr<const TokenTable>> tables_;
  mutable size_t tables_bytes_ = 0;
};

}  // namespace fathom
