// Which tokens can be read from one state of a grammar, whatever rules the state's own rule was called by: made once,
// by walking the whole vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/token_trie.h"

namespace fathom {

struct TokenTable {
  // Tokens that end inside the rule, sorted by how many more units of a counted loop they need, begun ones included;
  // n_up_to[u] of them need at most u. Rules that are no loops need 0.
  std::vector<TokenId> inside;
  std::vector<uint32_t> n_up_to;
  std::vector<uint64_t> inside_mask;  // the same as bits, when they are many

  // Tokens that leave the loop's units after `units` of them.
  struct Exit {
    uint32_t units = 0;
    std::vector<TokenId> ending;  // these end in the loop's tail, or with the rule
    TokenTrie after;              // the rest of those that go on after the rule
  };
  std::vector<Exit> exits;  // by units

  // The rule can end in so many places that the rests would be larger than the vocabulary: walk that instead.
  bool walk_vocabulary = false;

  [[nodiscard]] uint32_t max_units() const { return static_cast<uint32_t>(n_up_to.size()) - 1; }
  [[nodiscard]] size_t memory_bytes() const;
};

// `vocabulary` holds the strings of `token_bytes`, which is indexed by token.
[[nodiscard]] TokenTable make_token_table(const Automaton& automaton, uint32_t state, const TokenTrie& vocabulary,
                                          const std::vector<std::string>& token_bytes);

// Equal for states of rules without calls whose tables are equal, in whatever grammars.
[[nodiscard]] std::string token_table_key(const Automaton& automaton, uint32_t state);

}  // namespace fathom
