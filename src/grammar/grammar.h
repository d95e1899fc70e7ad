// A context-free grammar over bytes and control tokens, as a tree of expressions per rule. Parsers of schemas, regular
// expressions and GBNF build it; compile_grammar() (automaton.h) makes of it what a matcher runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/char_set.h"

namespace fathom {

using ExprId = uint32_t;
using RuleId = uint32_t;

// One part of a text that is matched. Which members count depends on the kind.
struct Expr {
  enum class Kind : uint8_t {
    kNothing,  // matches no text at all
    kLiteral,  // text, byte for byte; may be empty
    kChars,    // one character of a set, in UTF-8
    kToken,    // one control token, by its literal
    kSequence,
    kChoice,
    kRepeat,        // parts[0], min to max times
    kRule,          // another rule
    kNetwork,       // a path from the first of n nodes to the last, over edges of expressions
    kIntersection,  // what all parts match; none of them may need a rule that is called
  };
  struct NetworkEdge {
    uint32_t from = 0;
    ExprId expr = 0;
    uint32_t to = 0;
  };

  Kind kind = Kind::kNothing;
  std::string text = {};
  CharSet chars = {};
  std::vector<ExprId> parts = {};
  int min = 0;
  std::optional<int> max = {};  // unset: no limit
  RuleId rule = 0;
  uint32_t n_nodes = 0;
  std::vector<NetworkEdge> edges = {};
};

// A rule that is a counted loop has one counter instead of a copy of the loop's body for every count.
struct CountedLoop {
  ExprId unit = 0;  // one choice of characters and sequences of them, none a prefix of another
  int min = 0;
  std::optional<int> max = {};
  std::string tail = {};  // what follows the last unit; its first byte begins no unit. May be empty
};

struct GrammarRule {
  std::string name;  // for messages
  ExprId expr = 0;
  std::optional<CountedLoop> loop = {};  // instead of expr
  bool may_copy = false;  // where it is called, if it is small: what surrounds it is then part of the same automaton
};

class Grammar {
 public:
  [[nodiscard]] ExprId nothing();
  [[nodiscard]] ExprId literal(std::string_view text);
  [[nodiscard]] ExprId chars(CharSet set);
  [[nodiscard]] ExprId token(std::string_view literal);
  [[nodiscard]] ExprId sequence(std::vector<ExprId> parts);
  [[nodiscard]] ExprId choice(std::vector<ExprId> parts);
  [[nodiscard]] ExprId optional(ExprId part) { return choice({literal(""), part}); }
  [[nodiscard]] ExprId repeat(ExprId part, int min, std::optional<int> max);
  // The same as repeat(), but never a rule of its own.
  [[nodiscard]] ExprId copies(ExprId part, int min, std::optional<int> max);
  [[nodiscard]] ExprId intersection(std::vector<ExprId> parts);
  [[nodiscard]] ExprId rule(RuleId rule);
  [[nodiscard]] ExprId network(uint32_t n_nodes, std::vector<Expr::NetworkEdge> edges);

  // A rule without an expression matches nothing until define().
  [[nodiscard]] RuleId add_rule(std::string name, bool may_copy = false);
  void define(RuleId rule, ExprId expr) { rules_[rule].expr = expr; }
  [[nodiscard]] RuleId add_loop(std::string name, CountedLoop loop);

  [[nodiscard]] const Expr& expr(ExprId id) const { return exprs_[id]; }
  [[nodiscard]] const std::vector<GrammarRule>& rules() const { return rules_; }
  [[nodiscard]] size_t n_exprs() const { return exprs_.size(); }

  RuleId root = 0;

 private:
  ExprId add(Expr expr);

  std::vector<Expr> exprs_;
  std::vector<GrammarRule> rules_;
};

}  // namespace fathom
