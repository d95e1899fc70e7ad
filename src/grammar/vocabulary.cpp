#include "grammar/vocabulary.h"

#include <utility>

#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

// Tables of ordinary schemas need a few megabytes; a client that sends ever new ones must not take all memory.
constexpr size_t kMaxTableBytes = size_t{128} << 20;

bool is_added(TokenType type) { return type == TokenType::kControl || type == TokenType::kUserDefined; }

std::vector<std::string> text_tokens(const Tokenizer& tokenizer) {
  std::vector<std::string> bytes(tokenizer.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const TokenType type = tokenizer.data().types[i];
    if (!is_added(type) && type != TokenType::kUnused) {
      bytes[i] = tokenizer.token_bytes(static_cast<TokenId>(i));
    }
  }
  return bytes;
}

std::unordered_map<std::string, TokenId> other_tokens(const Tokenizer& tokenizer) {
  std::unordered_map<std::string, TokenId> tokens;
  for (size_t i = 0; i < tokenizer.size(); ++i) {
    if (is_added(tokenizer.data().types[i])) {
      tokens.emplace(tokenizer.token_bytes(static_cast<TokenId>(i)), static_cast<TokenId>(i));
    }
  }
  return tokens;
}

}  // namespace

GrammarVocabulary::GrammarVocabulary(std::vector<std::string> bytes, std::unordered_map<std::string, TokenId> tokens)
    : bytes_(std::move(bytes)), tokens_(std::move(tokens)) {
  std::vector<TokenTrie::Entry> entries;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    entries.push_back({bytes_[i], static_cast<TokenId>(i)});
  }
  trie_ = TokenTrie(std::move(entries));
}

GrammarVocabulary::GrammarVocabulary(const Tokenizer& tokenizer)
    : GrammarVocabulary(text_tokens(tokenizer), other_tokens(tokenizer)) {}

std::optional<TokenId> GrammarVocabulary::find_token(std::string_view literal) const {
  const auto found = tokens_.find(std::string(literal));
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<const TokenTable> GrammarVocabulary::shared_table(const Automaton& automaton, uint32_t state) const {
  std::string key = token_table_key(automaton, state);
  const std::lock_guard lock(mutex_);
  if (const auto found = tables_.find(key); found != tables_.end()) {
    return found->second;
  }
  auto table = std::make_shared<const TokenTable>(make_token_table(automaton, state, trie_, bytes_));
  const size_t bytes = table->memory_bytes() + key.size();
  if (tables_bytes_ + bytes > kMaxTableBytes) {
    tables_.clear();
    tables_bytes_ = 0;
  }
  tables_bytes_ += bytes;
  tables_.emplace(std::move(key), table);
  return table;
}

}  // namespace fathom
