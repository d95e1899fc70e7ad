#include "grammar/rule_automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace fathom {
namespace {

// Half a second of work and some tens of megabytes at the most, whatever the grammar.
constexpr size_t kMaxWork = 8'000'000;
constexpr size_t kMaxNfaStates = 400'000;
constexpr size_t kMaxStates = 60'000;
constexpr size_t kMaxTokens = 1000;

constexpr size_t kMaxCopyCost = 200;
constexpr int kMaxCopyDepth = 50;
constexpr size_t kNeverCopied = std::numeric_limits<size_t>::max();
constexpr size_t kInProgress = kNeverCopied - 1;

[[noreturn]] void fail_too_large(const char* what, size_t limit);

// The texts of both. States that lead nowhere stay.
RuleAutomaton intersect(const RuleAutomaton& a, const RuleAutomaton& b) {
  RuleAutomaton result;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const auto id_of = [&](uint32_t x, uint32_t y) {
    const auto [place, is_new] = ids.try_emplace({x, y}, static_cast<uint32_t>(pairs.size()));
    if (is_new) {
      if (pairs.size() == kMaxStates) {
        fail_too_large("states", kMaxStates);
      }
      pairs.emplace_back(x, y);
    }
    return place->second;
  };
  static_cast<void>(id_of(0, 0));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const RuleAutomaton::State& x = a.states[pairs[i].first];
    const RuleAutomaton::State& y = b.states[pairs[i].second];
    if (!x.calls.empty() || !y.calls.empty()) {
      throw Error(ErrorCode::kBadRequest, "grammar: counts over 64 are not supported together with other patterns");
    }
    RuleAutomaton::State state;
    state.accepts = x.accepts && y.accepts;
    for (auto p = x.edges.begin(), q = y.edges.begin(); p != x.edges.end() && q != y.edges.end();) {
      const Symbol first = std::max(p->first, q->first);
      const Symbol last = std::min(p->last, q->last);
      if (first <= last) {
        state.edges.push_back({first, last, id_of(p->target, q->target)});
      }
      if (p->last < q->last) {
        ++p;
      } else {
        ++q;
      }
    }
    result.states.push_back(std::move(state));
  }
  return result;
}

[[noreturn]] void fail_too_large(const char* what, size_t limit) {
  throw Error(ErrorCode::kBadRequest, fmt::format("grammar: too large: more than {} {}", limit, what));
}

}  // namespace

Symbol TokenNames::symbol(const std::string& literal) {
  const auto [place, is_new] = symbols_.try_emplace(literal, static_cast<Symbol>(kFirstToken + names_.size()));
  if (is_new) {
    if (names_.size() == kMaxTokens) {
      fail_too_large("control tokens", kMaxTokens);
    }
    names_.push_back(literal);
  }
  return place->second;
}

RuleCompiler::RuleCompiler(const Grammar& grammar, TokenNames& tokens)
    : grammar_(grammar), tokens_(tokens), copy_costs_(grammar.rules().size()) {}

void RuleCompiler::spend(size_t work) {
  work_ += work;
  if (work_ > kMaxWork) {
    fail_too_large("steps to prepare it", kMaxWork);
  }
}

RuleAutomaton RuleCompiler::compile(RuleId rule) {
  nfa_.clear();
  const GrammarRule& definition = grammar_.rules()[rule];
  if (definition.loop) {
    return compile_loop(*definition.loop);
  }
  const uint32_t start = add_state();
  const uint32_t end = add_state();
  add_expr(definition.expr, start, end);
  return determinise(start, end);
}

uint32_t RuleCompiler::add_state() {
  if (nfa_.size() == kMaxNfaStates) {
    fail_too_large("positions in a rule", kMaxNfaStates);
  }
  nfa_.emplace_back();
  return static_cast<uint32_t>(nfa_.size() - 1);
}

void RuleCompiler::add_expr(ExprId id, uint32_t from, uint32_t to) {
  const Expr& expr = grammar_.expr(id);
  switch (expr.kind) {
    case Expr::Kind::kNothing:
      return;
    case Expr::Kind::kLiteral:
      return add_literal(expr.text, from, to);
    case Expr::Kind::kChars:
      return add_chars(expr.chars, from, to);
    case Expr::Kind::kToken: {
      const Symbol symbol = tokens_.symbol(expr.text);
      nfa_[from].edges.push_back({symbol, symbol, to});
      return;
    }
    case Expr::Kind::kSequence:
      return add_sequence(expr.parts, from, to);
    case Expr::Kind::kChoice:
      for (const ExprId part : expr.parts) {
        // With a place of its own to begin, so that a loop in one choice does not lead into another.
        const uint32_t begin = add_state();
        nfa_[from].empty.push_back(begin);
        add_expr(part, begin, to);
      }
      return;
    case Expr::Kind::kRepeat:
      return add_repeat(expr, from, to);
    case Expr::Kind::kRule:
      if (copy_cost(expr.rule) == kNeverCopied) {
        nfa_[from].calls.push_back({expr.rule, to});
      } else {
        add_expr(grammar_.rules()[expr.rule].expr, from, to);
      }
      return;
    case Expr::Kind::kNetwork:
      return add_network(expr, from, to);
    case Expr::Kind::kIntersection:
      return add_intersection(expr.parts, from, to);
  }
}

void RuleCompiler::add_literal(const std::string& text, uint32_t from, uint32_t to) {
  for (const char c : text) {
    const uint32_t next = add_state();
    const auto byte = static_cast<Symbol>(static_cast<unsigned char>(c));
    nfa_[from].edges.push_back({byte, byte, next});
    from = next;
  }
  nfa_[from].empty.push_back(to);
}

void RuleCompiler::add_chars(const CharSet& set, uint32_t from, uint32_t to) {
  for (const ByteRanges& sequence : utf8_ranges(set)) {
    uint32_t at = from;
    for (size_t i = 0; i < sequence.size(); ++i) {
      const uint32_t next = i + 1 == sequence.size() ? to : add_state();
      nfa_[at].edges.push_back({sequence[i].first, sequence[i].last, next});
      at = next;
    }
  }
}

void RuleCompiler::add_sequence(const std::vector<ExprId>& parts, uint32_t from, uint32_t to) {
  for (const ExprId part : parts) {
    const uint32_t next = add_state();
    add_expr(part, from, next);
    from = next;
  }
  nfa_[from].empty.push_back(to);
}

void RuleCompiler::add_repeat(const Expr& expr, uint32_t from, uint32_t to) {
  const ExprId part = expr.parts[0];
  for (int i = 0; i < expr.min; ++i) {
    const uint32_t next = add_state();
    add_expr(part, from, next);
    from = next;
  }
  if (!expr.max) {
    const uint32_t loop = add_state();
    const uint32_t again = add_state();
    nfa_[from].empty.push_back(loop);
    add_expr(part, loop, again);
    nfa_[again].empty.push_back(loop);
    nfa_[loop].empty.push_back(to);
    return;
  }
  for (int i = expr.min; i < *expr.max; ++i) {
    nfa_[from].empty.push_back(to);
    const uint32_t begin = add_state();
    const uint32_t next = add_state();
    nfa_[from].empty.push_back(begin);
    add_expr(part, begin, next);
    from = next;
  }
  nfa_[from].empty.push_back(to);
}

void RuleCompiler::add_network(const Expr& expr, uint32_t from, uint32_t to) {
  std::vector<uint32_t> nodes(expr.n_nodes);
  for (uint32_t& node : nodes) {
    node = add_state();
  }
  nfa_[from].empty.push_back(nodes.front());
  nfa_[nodes.back()].empty.push_back(to);
  for (const Expr::NetworkEdge& edge : expr.edges) {
    const uint32_t begin = add_state();
    nfa_[nodes[edge.from]].empty.push_back(begin);
    add_expr(edge.expr, begin, nodes[edge.to]);
  }
}

RuleAutomaton RuleCompiler::compile_alone(ExprId id) {
  std::vector<NfaState> outer;
  std::swap(outer, nfa_);
  const uint32_t start = add_state();
  const uint32_t end = add_state();
  add_expr(id, start, end);
  RuleAutomaton result = determinise(start, end);
  std::swap(outer, nfa_);
  return result;
}

// Two at a time: states are pairs of states.
void RuleCompiler::add_intersection(const std::vector<ExprId>& parts, uint32_t from, uint32_t to) {
  RuleAutomaton all = compile_alone(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    all = intersect(all, compile_alone(parts[i]));
    n_states_ += all.states.size();
    spend(all.states.size());
    if (n_states_ > kMaxStates) {
      fail_too_large("states", kMaxStates);
    }
  }
  std::vector<uint32_t> places;
  for (const RuleAutomaton::State& state : all.states) {
    places.push_back(add_state());
    if (state.accepts) {
      nfa_[places.back()].empty.push_back(to);
    }
  }
  nfa_[from].empty.push_back(places[0]);
  for (size_t s = 0; s < all.states.size(); ++s) {
    for (const AutomatonEdge& edge : all.states[s].edges) {
      nfa_[places[s]].edges.push_back({edge.first, edge.last, places[edge.target]});
    }
  }
}

std::vector<uint32_t> RuleCompiler::closure(std::vector<uint32_t> set, uint32_t end) {
  mark_.resize(nfa_.size());
  const uint32_t mark = ++n_closures_;
  std::vector<uint32_t> reached;
  while (!set.empty()) {
    const uint32_t state = set.back();
    set.pop_back();
    if (mark_[state] != mark) {
      mark_[state] = mark;
      spend(1 + nfa_[state].empty.size());
      reached.push_back(state);
      set.insert(set.end(), nfa_[state].empty.begin(), nfa_[state].empty.end());
    }
  }
  // States that only pass on say nothing: without them more sets are equal.
  std::erase_if(reached, [&](uint32_t s) { return nfa_[s].edges.empty() && nfa_[s].calls.empty() && s != end; });
  std::sort(reached.begin(), reached.end());
  return reached;
}

RuleAutomaton RuleCompiler::determinise(uint32_t start, uint32_t end) {
  RuleAutomaton result;
  std::map<std::vector<uint32_t>, uint32_t> ids;
  std::vector<const std::vector<uint32_t>*> sets;
  const auto id_of = [&](std::vector<uint32_t> set) {
    const auto [place, is_new] = ids.try_emplace(closure(std::move(set), end), static_cast<uint32_t>(sets.size()));
    if (is_new) {
      if (++n_states_ > kMaxStates) {
        fail_too_large("states", kMaxStates);
      }
      sets.push_back(&place->first);
    }
    return place->second;
  };
  static_cast<void>(id_of({start}));
  for (size_t i = 0; i < sets.size(); ++i) {
    const std::vector<uint32_t>& set = *sets[i];
    spend(set.size());
    RuleAutomaton::State state;
    state.accepts = std::binary_search(set.begin(), set.end(), end);
    // The borders between which all edges are the same.
    std::vector<uint32_t> borders;
    std::map<RuleId, std::vector<uint32_t>> calls;
    for (const uint32_t s : set) {
      for (const AutomatonEdge& edge : nfa_[s].edges) {
        borders.push_back(edge.first);
        borders.push_back(edge.last + 1U);
      }
      for (const AutomatonCall& call : nfa_[s].calls) {
        calls[call.rule].push_back(call.target);
      }
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    std::vector<std::vector<uint32_t>> targets(borders.size());
    for (const uint32_t s : set) {
      for (const AutomatonEdge& edge : nfa_[s].edges) {
        auto border = std::lower_bound(borders.begin(), borders.end(), edge.first) - borders.begin();
        for (; borders[static_cast<size_t>(border)] <= edge.last; ++border) {
          targets[static_cast<size_t>(border)].push_back(edge.target);
          spend(1);
        }
      }
    }
    for (size_t b = 0; b + 1 < borders.size(); ++b) {
      if (targets[b].empty()) {
        continue;
      }
      const uint32_t target = id_of(std::move(targets[b]));
      const auto first = static_cast<Symbol>(borders[b]);
      const auto last = static_cast<Symbol>(borders[b + 1] - 1);
      if (!state.edges.empty() && state.edges.back().last + 1 == first && state.edges.back().target == target) {
        state.edges.back().last = last;
      } else {
        state.edges.push_back({first, last, target});
      }
    }
    for (auto& [rule, after] : calls) {
      state.calls.push_back({rule, id_of(std::move(after))});
    }
    result.states.push_back(std::move(state));
  }
  return result;
}

// The unit's automaton with its end made its start, then a chain for the tail.
RuleAutomaton RuleCompiler::compile_loop(const CountedLoop& loop) {
  const uint32_t start = add_state();
  const uint32_t end = add_state();
  add_expr(loop.unit, start, end);
  const RuleAutomaton unit = determinise(start, end);
  RuleAutomaton result;
  std::vector<uint32_t> places;
  for (const RuleAutomaton::State& state : unit.states) {
    FATHOM_CHECK(state.calls.empty() && (!state.accepts || (state.edges.empty() && &state != &unit.states[0])),
                 "no unit of a loop is a prefix of another");
    places.push_back(state.accepts ? 0 : static_cast<uint32_t>(result.states.size()));
    if (!state.accepts) {
      result.states.push_back(state);
    }
  }
  for (RuleAutomaton::State& state : result.states) {
    for (AutomatonEdge& edge : state.edges) {
      edge.target = places[edge.target];
    }
  }
  result.tail_start = static_cast<uint32_t>(result.states.size());
  uint32_t at = 0;
  for (const char c : loop.tail) {
    const auto byte = static_cast<Symbol>(static_cast<unsigned char>(c));
    const auto next = static_cast<uint32_t>(result.states.size());
    std::vector<AutomatonEdge>& edges = result.states[at].edges;
    const auto place = std::find_if(edges.begin(), edges.end(), [byte](const auto& edge) { return edge.last >= byte; });
    FATHOM_CHECK(place == edges.end() || place->first > byte, "no unit of a loop begins as its tail");
    edges.insert(place, {byte, byte, next});
    result.states.emplace_back();
    at = next;
  }
  result.states[at].accepts = true;
  return result;
}

size_t RuleCompiler::copy_cost(RuleId rule) {
  size_t& cost = copy_costs_[rule];
  if (cost == kInProgress) {
    cost = kNeverCopied;  // it contains itself
  } else if (cost == 0) {
    const GrammarRule& definition = grammar_.rules()[rule];
    if (definition.loop || !definition.may_copy || copy_depth_ == kMaxCopyDepth) {
      cost = kNeverCopied;
    } else {
      cost = kInProgress;
      ++copy_depth_;
      const size_t size = expr_cost(definition.expr);
      --copy_depth_;
      if (size > kMaxCopyCost) {
        copy_costs_[rule] = kNeverCopied;
      } else if (copy_costs_[rule] == kInProgress) {
        copy_costs_[rule] = std::max<size_t>(size, 1);
      }
    }
  }
  return copy_costs_[rule];
}

// Stops counting soon after the limit.
size_t RuleCompiler::expr_cost(ExprId id) {
  const Expr& expr = grammar_.expr(id);
  size_t cost = 1;
  switch (expr.kind) {
    case Expr::Kind::kLiteral:
      return expr.text.size();
    case Expr::Kind::kRule: {
      const size_t copies = copy_cost(expr.rule);
      return copies == kNeverCopied ? 1 : copies;
    }
    case Expr::Kind::kNetwork:
      return kMaxCopyCost + 1;
    default:
      break;
  }
  for (const ExprId part : expr.parts) {
    cost += expr_cost(part);
    if (cost > kMaxCopyCost) {
      return cost;
    }
  }
  if (expr.kind == Expr::Kind::kRepeat) {
    cost *= static_cast<size_t>(std::max({1, expr.min, expr.max.value_or(1)}));
  }
  return cost;
}

}  // namespace fathom
