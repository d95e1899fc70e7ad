#include "grammar/grammar.h"

#include <utility>

namespace fathom {

ExprId Grammar::add(Expr expr) {
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId Grammar::nothing() { return add({.kind = Expr::Kind::kNothing}); }

ExprId Grammar::literal(std::string_view text) {
  return add({.kind = Expr::Kind::kLiteral, .text = std::string(text)});
}

ExprId Grammar::chars(CharSet set) { return add({.kind = Expr::Kind::kChars, .chars = std::move(set)}); }

ExprId Grammar::token(std::string_view literal) {
  return add({.kind = Expr::Kind::kToken, .text = std::string(literal)});
}

ExprId Grammar::sequence(std::vector<ExprId> parts) {
  return parts.size() == 1 ? parts[0] : add({.kind = Expr::Kind::kSequence, .parts = std::move(parts)});
}

ExprId Grammar::choice(std::vector<ExprId> parts) {
  return parts.size() == 1 ? parts[0] : add({.kind = Expr::Kind::kChoice, .parts = std::move(parts)});
}

ExprId Grammar::repeat(ExprId part, int min, std::optional<int> max) {
  // Up to here copies are cheaper: they need no rule of their own, so that what follows is part of the same automaton.
  constexpr int kMaxCopies = 64;
  const int n_copies = max.value_or(min);
  if (n_copies > kMaxCopies && exprs_[part].kind == Expr::Kind::kChars) {
    return rule(add_loop("a repeated character", {.unit = part, .min = min, .max = max}));
  }
  return copies(part, min, max);
}

ExprId Grammar::copies(ExprId part, int min, std::optional<int> max) {
  return add({.kind = Expr::Kind::kRepeat, .parts = {part}, .min = min, .max = max});
}

ExprId Grammar::intersection(std::vector<ExprId> parts) {
  return parts.size() == 1 ? parts[0] : add({.kind = Expr::Kind::kIntersection, .parts = std::move(parts)});
}

ExprId Grammar::rule(RuleId rule) { return add({.kind = Expr::Kind::kRule, .rule = rule}); }

ExprId Grammar::network(uint32_t n_nodes, std::vector<Expr::NetworkEdge> edges) {
  return add({.kind = Expr::Kind::kNetwork, .n_nodes = n_nodes, .edges = std::move(edges)});
}

RuleId Grammar::add_rule(std::string name, bool may_copy) {
  const ExprId none = nothing();
  rules_.push_back({.name = std::move(name), .expr = none, .may_copy = may_copy});
  return static_cast<RuleId>(rules_.size() - 1);
}

RuleId Grammar::add_loop(std::string name, CountedLoop loop) {
  const ExprId none = nothing();
  rules_.push_back({.name = std::move(name), .expr = none, .loop = std::move(loop)});
  return static_cast<RuleId>(rules_.size() - 1);
}

}  // namespace fathom
