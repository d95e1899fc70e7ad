// One rule of a grammar as a deterministic automaton, before the rules are put together.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace fathom {

struct RuleAutomaton {
  struct State {
    std::vector<AutomatonEdge> edges;
    std::vector<AutomatonCall> calls;
    bool accepts = false;
  };
  std::vector<State> states;                                   // the first is the start
  uint32_t tail_start = std::numeric_limits<uint32_t>::max();  // of a counted loop
};

// Numbers of control tokens, in the order in which they are met.
class TokenNames {
 public:
  [[nodiscard]] Symbol symbol(const std::string& literal);
  [[nodiscard]] std::vector<std::string> take() { return std::move(names_); }

 private:
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;
};

// Makes the automata of a grammar's rules, within limits that all of them share. Throws kBadRequest past a limit.
class RuleCompiler {
 public:
  RuleCompiler(const Grammar& grammar, TokenNames& tokens);
  [[nodiscard]] RuleAutomaton compile(RuleId rule);

 private:
  struct NfaState {
    std::vector<uint32_t> empty;  // reached without reading anything
    std::vector<AutomatonEdge> edges;
    std::vector<AutomatonCall> calls;
  };

  [[nodiscard]] uint32_t add_state();
  void add_expr(ExprId id, uint32_t from, uint32_t to);
  void add_literal(const std::string& text, uint32_t from, uint32_t to);
  void add_chars(const CharSet& set, uint32_t from, uint32_t to);
  void add_sequence(const std::vector<ExprId>& parts, uint32_t from, uint32_t to);
  void add_repeat(const Expr& expr, uint32_t from, uint32_t to);
  void add_network(const Expr& expr, uint32_t from, uint32_t to);
  void add_intersection(const std::vector<ExprId>& parts, uint32_t from, uint32_t to);
  [[nodiscard]] RuleAutomaton compile_alone(ExprId id);
  [[nodiscard]] RuleAutomaton determinise(uint32_t start, uint32_t end);
  [[nodiscard]] RuleAutomaton compile_loop(const CountedLoop& loop);
  [[nodiscard]] std::vector<uint32_t> closure(std::vector<uint32_t> set, uint32_t end);
  void spend(size_t work);

  // Copies that a rule would cost where it is called; kNeverCopied for those that are called.
  [[nodiscard]] size_t copy_cost(RuleId rule);
  [[nodiscard]] size_t expr_cost(ExprId id);

  const Grammar& grammar_;
  TokenNames& tokens_;
  std::vector<NfaState> nfa_;
  std::vector<uint32_t> mark_;  // of closure(): the last one that met a state
  uint32_t n_closures_ = 0;
  std::vector<size_t> copy_costs_;  // by rule; 0: not known yet
  int copy_depth_ = 0;
  size_t work_ = 0;
  size_t n_states_ = 0;
};

}  // namespace fathom
