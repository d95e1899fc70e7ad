// A grammar for one model's vocabulary: which tokens may come next. Shared by any number of requests and threads; what
// it learns about its states it keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/vocabulary.h"

namespace fathom {

class TokenGrammar {
 public:
  // Throws kBadRequest (compile_grammar()), also for a control token that the vocabulary lacks.
  TokenGrammar(const Grammar& grammar, std::shared_ptr<const GrammarVocabulary> vocabulary);

  [[nodiscard]] size_t vocab() const { return vocabulary_->size(); }
  // The bytes of a token; none if it is no text.
  [[nodiscard]] const std::string& text(TokenId token) const {
    return vocabulary_->bytes()[static_cast<size_t>(token)];
  }
  [[nodiscard]] Matcher begin() const { return Matcher(automaton_); }
  // False: the token does not fit, and the matcher is as before.
  [[nodiscard]] bool accept(Matcher& matcher, TokenId token) const;
  // Bit t % 64 of word t / 64 says whether token t may come next; the size is that of the vocabulary, in words of 64.
  // Tokens that end a reply are the caller's business: they may come when matcher.complete(). Throws kBadRequest for a
  // grammar that is too ambiguous to be followed.
  void fill_mask(Matcher& matcher, std::vector<uint64_t>& mask) const;

  // Makes the tables of the states that most tokens fit, so that no request has to wait for them. Milliseconds each.
  void prepare() const;
  // As if no mask had been asked for yet; for measurements.
  void forget_masks() const;

  [[nodiscard]] const Automaton& automaton() const { return automaton_; }

 private:
  [[nodiscard]] const TokenTable& table(uint32_t state) const;
  void compute_mask(Matcher& matcher, std::vector<uint64_t>& mask) const;
  void add_item(MatchStack& stack, const MatchStack::Position& position, const MatchItem& item,
                std::vector<uint64_t>& mask) const;

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  Automaton automaton_;
  std::vector<TokenId> tokens_;  // by control token of the automaton

  mutable std::mutex mutex_;  // of what follows
  mutable std::unordered_map<uint32_t, std::shared_ptr<const TokenTable>> tables_;
  mutable size_t tables_bytes_ = 0;
  mutable std::unordered_map<std::string, std::vector<uint64_t>> masks_;  // by Matcher::key()
};

}  // namespace fathom
