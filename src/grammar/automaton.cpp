#include "grammar/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "grammar/rule_automaton.h"

namespace fathom {
namespace {

constexpr size_t kMaxRules = 10'000;

using Rules = std::vector<RuleAutomaton>;  // by id; empty for those that the root does not need

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kBadRequest, "grammar: " + what); }

// The rules that the root needs.
Rules compile_rules(const Grammar& grammar, TokenNames& tokens) {
  Rules rules(grammar.rules().size());
  RuleCompiler compiler(grammar, tokens);
  std::vector<RuleId> needed = {grammar.root};
  std::vector<bool> seen(rules.size());
  seen[grammar.root] = true;
  while (!needed.empty()) {
    const RuleId id = needed.back();
    needed.pop_back();
    rules[id] = compiler.compile(id);
    for (const RuleAutomaton::State& state : rules[id].states) {
      for (const AutomatonCall& call : state.calls) {
        if (!seen[call.rule]) {
          seen[call.rule] = true;
          needed.push_back(call.rule);
        }
      }
    }
  }
  return rules;
}

// Which states lead to the end of their rule, given which rules have an end.
std::vector<bool> states_with_end(const RuleAutomaton& rule, const std::vector<bool>& has_end) {
  const size_t n = rule.states.size();
  std::vector<std::vector<uint32_t>> before(n);
  std::vector<uint32_t> found;
  std::vector<bool> ends(n);
  for (size_t s = 0; s < n; ++s) {
    for (const AutomatonEdge& edge : rule.states[s].edges) {
      before[edge.target].push_back(static_cast<uint32_t>(s));
    }
    for (const AutomatonCall& call : rule.states[s].calls) {
      if (has_end[call.rule]) {
        before[call.target].push_back(static_cast<uint32_t>(s));
      }
    }
    if (rule.states[s].accepts) {
      ends[s] = true;
      found.push_back(static_cast<uint32_t>(s));
    }
  }
  while (!found.empty()) {
    const uint32_t state = found.back();
    found.pop_back();
    for (const uint32_t s : before[state]) {
      if (!ends[s]) {
        ends[s] = true;
        found.push_back(s);
      }
    }
  }
  return ends;
}

// Which rules match a text at all. A rule is looked at again when one that it calls turns out to.
std::vector<bool> rules_with_end(const Rules& rules) {
  std::vector<std::vector<RuleId>> callers(rules.size());
  std::vector<RuleId> open;
  for (RuleId r = 0; r < rules.size(); ++r) {
    for (const RuleAutomaton::State& state : rules[r].states) {
      for (const AutomatonCall& call : state.calls) {
        callers[call.rule].push_back(r);
      }
    }
    std::vector<RuleId>& list = callers[r];
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    if (!rules[r].states.empty()) {
      open.push_back(r);
    }
  }
  std::vector<bool> has_end(rules.size());
  while (!open.empty()) {
    const RuleId r = open.back();
    open.pop_back();
    if (!has_end[r] && states_with_end(rules[r], has_end)[0]) {
      has_end[r] = true;
      for (const RuleId caller : callers[r]) {
        if (!has_end[caller]) {
          open.push_back(caller);
        }
      }
    }
  }
  return has_end;
}

// Leaves what leads nowhere out. The start stays.
void trim(RuleAutomaton& rule, const std::vector<bool>& has_end) {
  const std::vector<bool> ends = states_with_end(rule, has_end);
  std::vector<uint32_t> places(rule.states.size());
  std::vector<RuleAutomaton::State> kept;
  for (size_t s = 0; s < rule.states.size(); ++s) {
    places[s] = static_cast<uint32_t>(kept.size());
    if (ends[s]) {
      kept.push_back(std::move(rule.states[s]));
    }
  }
  for (RuleAutomaton::State& state : kept) {
    std::erase_if(state.edges, [&](const AutomatonEdge& edge) { return !ends[edge.target]; });
    std::erase_if(state.calls, [&](const AutomatonCall& call) { return !has_end[call.rule] || !ends[call.target]; });
    for (AutomatonEdge& edge : state.edges) {
      edge.target = places[edge.target];
    }
    for (AutomatonCall& call : state.calls) {
      call.target = places[call.target];
    }
  }
  rule.states = std::move(kept);
}

Automaton put_together(const Grammar& grammar, Rules rules) {
  Automaton all;
  all.root = grammar.root;
  all.rules.resize(rules.size());
  for (RuleId r = 0; r < rules.size(); ++r) {
    AutomatonRule& rule = all.rules[r];
    rule.name = grammar.rules()[r].name;
    rule.start = static_cast<uint32_t>(all.states.size());
    rule.n_states = static_cast<uint32_t>(rules[r].states.size());
    if (const auto& loop = grammar.rules()[r].loop; loop && rule.n_states > 0) {
      rule.is_loop = true;
      rule.tail_start = rule.start + rules[r].tail_start;
      rule.min_count = static_cast<uint32_t>(loop->min);
      rule.max_count = loop->max ? static_cast<uint32_t>(*loop->max) : kUnlimited;
    }
    for (const RuleAutomaton::State& from : rules[r].states) {
      AutomatonState state;
      state.rule = r;
      state.accepts = from.accepts;
      state.first_edge = static_cast<uint32_t>(all.edge_list.size());
      state.n_edges = static_cast<uint32_t>(from.edges.size());
      state.first_call = static_cast<uint32_t>(all.call_list.size());
      state.n_calls = static_cast<uint32_t>(from.calls.size());
      rule.calls = rule.calls || state.n_calls > 0;
      for (const AutomatonEdge& edge : from.edges) {
        all.edge_list.push_back({edge.first, edge.last, edge.target + rule.start});
      }
      for (const AutomatonCall& call : from.calls) {
        all.call_list.push_back({call.rule, call.target + rule.start});
      }
      all.states.push_back(state);
    }
  }
  return all;
}

// Where a rule may be before its first byte: its start, and what nullable calls lead to.
std::vector<uint32_t> first_states(const Automaton& all, const AutomatonRule& rule) {
  std::vector<uint32_t> reached = {rule.start};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const AutomatonCall& call : all.calls(all.states[reached[i]])) {
      if (all.rules[call.rule].nullable && std::find(reached.begin(), reached.end(), call.target) == reached.end()) {
        reached.push_back(call.target);
      }
    }
  }
  return reached;
}

bool may_end_at_once(const Automaton& all, const AutomatonRule& rule) {
  if (rule.is_loop) {
    return all.states[rule.start].accepts && rule.min_count == 0;
  }
  const std::vector<uint32_t> first = first_states(all, rule);
  return std::any_of(first.begin(), first.end(), [&](uint32_t s) { return all.states[s].accepts; });
}

void find_nullable(Automaton& all) {
  std::vector<std::vector<RuleId>> callers(all.rules.size());
  std::vector<RuleId> open;
  for (RuleId r = 0; r < all.rules.size(); ++r) {
    if (all.rules[r].n_states > 0) {
      open.push_back(r);
    }
  }
  for (const AutomatonState& state : all.states) {
    for (const AutomatonCall& call : all.calls(state)) {
      callers[call.rule].push_back(state.rule);
    }
  }
  while (!open.empty()) {
    const RuleId r = open.back();
    open.pop_back();
    if (!all.rules[r].nullable && may_end_at_once(all, all.rules[r])) {
      all.rules[r].nullable = true;
      open.insert(open.end(), callers[r].begin(), callers[r].end());
    }
  }
}

// Depth first along "may begin with"; ranks fall in the order of completion.
void rank_rules(Automaton& all) {
  struct Visit {
    RuleId rule;
    std::vector<RuleId> next;
  };
  const auto begins_with = [&all](RuleId r) {
    std::vector<RuleId> result;
    for (const uint32_t s : first_states(all, all.rules[r])) {
      for (const AutomatonCall& call : all.calls(all.states[s])) {
        result.push_back(call.rule);
      }
    }
    return result;
  };
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(all.rules.size(), Mark::kNew);
  auto rank = static_cast<uint32_t>(all.rules.size());
  std::vector<Visit> stack;
  for (RuleId root = 0; root < all.rules.size(); ++root) {
    if (all.rules[root].n_states == 0 || marks[root] != Mark::kNew) {
      continue;
    }
    marks[root] = Mark::kOpen;
    stack.push_back({root, begins_with(root)});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next.empty()) {
        marks[visit.rule] = Mark::kDone;
        all.rules[visit.rule].rank = --rank;
        stack.pop_back();
        continue;
      }
      const RuleId next = visit.next.back();
      visit.next.pop_back();
      if (marks[next] == Mark::kOpen) {
        fail(fmt::format("'{}' is left-recursive: it may begin with itself", printable(all.rules[next].name)));
      }
      if (marks[next] == Mark::kNew) {
        marks[next] = Mark::kOpen;
        stack.push_back({next, begins_with(next)});
      }
    }
  }
}

// Which bytes may come next in each state, the end of its rule not counted; and whether that end may come at once.
struct FirstBytes {
  std::vector<std::bitset<256>> bytes;
  std::vector<bool> may_end;
};

FirstBytes first_bytes(const Automaton& all) {
  FirstBytes first{.bytes = std::vector<std::bitset<256>>(all.states.size()),
                   .may_end = std::vector<bool>(all.states.size())};
  std::vector<RuleId> by_rank(all.rules.size());
  for (RuleId r = 0; r < all.rules.size(); ++r) {
    by_rank[r] = r;
  }
  std::sort(by_rank.begin(), by_rank.end(), [&](RuleId a, RuleId b) { return all.rules[a].rank > all.rules[b].rank; });
  for (size_t s = 0; s < all.states.size(); ++s) {
    first.may_end[s] = all.states[s].accepts;
    for (const AutomatonEdge& edge : all.edges(all.states[s])) {
      for (uint32_t b = edge.first; b <= edge.last && b < kFirstToken; ++b) {
        first.bytes[s].set(b);
      }
    }
  }
  // What a rule begins with is complete before the rules that begin with it, so this ends after a few rounds.
  bool changed = true;
  while (changed) {
    changed = false;
    for (const RuleId r : by_rank) {
      for (uint32_t s = all.rules[r].start + all.rules[r].n_states; s-- > all.rules[r].start;) {
        std::bitset<256> bytes = first.bytes[s];
        bool may_end = first.may_end[s];
        for (const AutomatonCall& call : all.calls(all.states[s])) {
          bytes |= first.bytes[all.rules[call.rule].start];
          if (all.rules[call.rule].nullable) {
            bytes |= first.bytes[call.target];
            may_end = may_end || first.may_end[call.target];
          }
        }
        if (bytes != first.bytes[s] || may_end != first.may_end[s]) {
          first.bytes[s] = bytes;
          first.may_end[s] = may_end;
          changed = true;
        }
      }
    }
  }
  return first;
}

void find_follow(Automaton& all) {
  const FirstBytes first = first_bytes(all);
  std::vector<std::vector<RuleId>> passes_on(all.rules.size());  // what follows a rule follows these too
  for (const AutomatonState& state : all.states) {
    for (const AutomatonCall& call : all.calls(state)) {
      all.rules[call.rule].follow |= first.bytes[call.target];
      if (first.may_end[call.target]) {
        passes_on[state.rule].push_back(call.rule);
      }
    }
  }
  std::vector<RuleId> open;
  for (RuleId r = 0; r < all.rules.size(); ++r) {
    open.push_back(r);
  }
  while (!open.empty()) {
    const RuleId r = open.back();
    open.pop_back();
    for (const RuleId callee : passes_on[r]) {
      const std::bitset<256> follow = all.rules[callee].follow | all.rules[r].follow;
      if (follow != all.rules[callee].follow) {
        all.rules[callee].follow = follow;
        open.push_back(callee);
      }
    }
  }
}

}  // namespace

Automaton compile_grammar(const Grammar& grammar) {
  if (grammar.rules().size() > kMaxRules) {
    fail(fmt::format("too large: {} rules, at most {}", grammar.rules().size(), kMaxRules));
  }
  TokenNames tokens;
  Rules rules = compile_rules(grammar, tokens);
  const std::vector<bool> has_end = rules_with_end(rules);
  if (!has_end[grammar.root]) {
    fail(fmt::format("no text matches '{}'", printable(grammar.rules()[grammar.root].name)));
  }
  for (RuleId r = 0; r < rules.size(); ++r) {
    if (has_end[r]) {
      trim(rules[r], has_end);
    } else {
      rules[r].states.clear();
    }
  }
  Automaton all = put_together(grammar, std::move(rules));
  all.tokens = tokens.take();
  find_nullable(all);
  rank_rules(all);
  find_follow(all);
  return all;
}

}  // namespace fathom
