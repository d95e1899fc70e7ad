// A grammar made ready for matching: every rule is a deterministic automaton over bytes, control tokens and calls of
// other rules. Immutable.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace fathom {

// A byte, or kFirstToken + the index of a control token of the grammar.
using Symbol = uint16_t;
inline constexpr Symbol kFirstToken = 256;

struct AutomatonEdge {
  Symbol first = 0;
  Symbol last = 0;  // included
  uint32_t target = 0;
};

// The text of `rule` leads to `target`.
struct AutomatonCall {
  RuleId rule = 0;
  uint32_t target = 0;
};

struct AutomatonState {
  uint32_t first_edge = 0, n_edges = 0;  // sorted, apart from each other
  uint32_t first_call = 0, n_calls = 0;
  RuleId rule = 0;
  bool accepts = false;  // the rule may end here

  [[nodiscard]] bool leads_on() const { return n_edges > 0 || n_calls > 0; }
};

struct AutomatonRule {
  std::string name;
  uint32_t start = 0;  // also the first of its states
  uint32_t n_states = 0;
  // Rules that a rule may begin with have higher ranks.
  uint32_t rank = 0;
  bool nullable = false;         // matches the empty text
  bool calls = false;            // has calls
  std::bitset<256> follow = {};  // bytes that may come after it

  // A counted loop: `start` is between two units, and reaching it again is one unit more. The states from tail_start on
  // follow the last unit. Elsewhere the count stays 0.
  bool is_loop = false;
  uint32_t tail_start = std::numeric_limits<uint32_t>::max();
  uint32_t min_count = 0;
  uint32_t max_count = 0;  // kUnlimited: counting stops at min_count
};

inline constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

struct Automaton {
  std::vector<AutomatonState> states;
  std::vector<AutomatonEdge> edge_list;
  std::vector<AutomatonCall> call_list;
  std::vector<AutomatonRule> rules;  // n_states is 0 for those that are not needed
  std::vector<std::string> tokens;   // literals of control tokens
  RuleId root = 0;

  [[nodiscard]] std::span<const AutomatonEdge> edges(const AutomatonState& s) const {
    return {edge_list.data() + s.first_edge, s.n_edges};
  }
  [[nodiscard]] std::span<const AutomatonCall> calls(const AutomatonState& s) const {
    return {call_list.data() + s.first_call, s.n_calls};
  }
};

// From every state of the result the end of the text can be reached. Throws kBadRequest for a grammar that no text
// matches, that is left-recursive, or that is too large.
[[nodiscard]] Automaton compile_grammar(const Grammar& grammar);

}  // namespace fathom
