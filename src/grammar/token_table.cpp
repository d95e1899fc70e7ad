#include "grammar/token_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "grammar/matcher.h"

namespace fathom {
namespace {

constexpr uint32_t kDead = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxRests = 300'000;
constexpr size_t kManyTokens = 1024;

void set_bit(std::vector<uint64_t>& mask, TokenId token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}

// Collects what the walk finds.
class TableBuilder {
 public:
  TableBuilder(const Automaton& automaton, uint32_t state, const TokenTrie& vocabulary,
               const std::vector<std::string>& token_bytes)
      : vocabulary_(vocabulary),
        token_bytes_(token_bytes),
        follow_(automaton.rules[automaton.states[state].rule].follow) {}

  void add_inside(const TokenTrie::Node& node, uint32_t units) {
    if (node.n_tokens > 0) {
      if (by_units_.size() <= units) {
        by_units_.resize(units + 1);
      }
      const auto tokens = vocabulary_.tokens(node);
      by_units_[units].insert(by_units_[units].end(), tokens.begin(), tokens.end());
    }
  }
  void add_ending(const TokenTrie::Node& node, uint32_t units) {
    const auto tokens = vocabulary_.tokens(node);
    std::vector<TokenId>& ending = exits_[units].ending;
    ending.insert(ending.end(), tokens.begin(), tokens.end());
  }
  // The rule may end at this node.
  void add_exit(size_t node, uint32_t units) {
    const auto nodes = vocabulary_.nodes();
    std::vector<TokenTrie::Entry>& rests = exits_[units].rests;
    for (size_t child = node + 1; child < nodes[node].end; child = nodes[child].end) {
      if (!follow_[nodes[child].byte]) {
        continue;
      }
      for (const TokenId token : vocabulary_.tokens_below(child)) {
        const std::string_view bytes = token_bytes_[static_cast<size_t>(token)];
        rests.push_back({bytes.substr(nodes[node].depth), token});
        ++n_rests_;
      }
    }
  }
  [[nodiscard]] bool too_many() const { return n_rests_ > kMaxRests; }

  [[nodiscard]] TokenTable take() {
    TokenTable table;
    table.n_up_to.push_back(0);
    for (size_t units = 0; units < by_units_.size(); ++units) {
      table.inside.insert(table.inside.end(), by_units_[units].begin(), by_units_[units].end());
      table.n_up_to.resize(units + 1);
      table.n_up_to[units] = static_cast<uint32_t>(table.inside.size());
    }
    if (table.inside.size() > kManyTokens) {
      table.inside_mask.resize((token_bytes_.size() + 63) / 64);
      for (const TokenId token : table.inside) {
        set_bit(table.inside_mask, token);
      }
    }
    for (auto& [units, exit] : exits_) {
      if (!exit.ending.empty() || !exit.rests.empty()) {
        table.exits.push_back({units, std::move(exit.ending), TokenTrie(std::move(exit.rests))});
      }
    }
    return table;
  }

 private:
  struct Exit {
    std::vector<TokenId> ending;
    std::vector<TokenTrie::Entry> rests;
  };

  const TokenTrie& vocabulary_;
  const std::vector<std::string>& token_bytes_;
  std::bitset<256> follow_;
  std::vector<std::vector<TokenId>> by_units_;
  std::map<uint32_t, Exit> exits_;
  size_t n_rests_ = 0;
};

// The bytes of a rule's states as tables.
class ByteTable {
 public:
  ByteTable(const Automaton& automaton, const AutomatonRule& rule) : automaton_(automaton), start_(rule.start) {
    constexpr uint32_t kMaxTableStates = 512;
    if (rule.n_states > kMaxTableStates) {
      return;
    }
    table_.resize(rule.n_states);
    for (uint32_t s = 0; s < rule.n_states; ++s) {
      table_[s].fill(kDead);
      for (const AutomatonEdge& edge : automaton.edges(automaton.states[start_ + s])) {
        for (uint32_t b = edge.first; b <= edge.last && b < kFirstToken; ++b) {
          table_[s][b] = edge.target;
        }
      }
    }
  }
  [[nodiscard]] uint32_t next(uint32_t state, uint8_t byte) const {
    if (!table_.empty()) {
      return table_[state - start_][byte];
    }
    const auto edges = automaton_.edges(automaton_.states[state]);
    const auto edge = std::find_if(edges.begin(), edges.end(), [byte](const auto& e) { return e.last >= byte; });
    return edge == edges.end() || edge->first > byte ? kDead : edge->target;
  }

 private:
  const Automaton& automaton_;
  uint32_t start_;
  std::vector<std::array<uint32_t, 256>> table_;
};

// For a rule without calls: a state and a count are all there is to know.
void walk_leaf(const Automaton& automaton, uint32_t state, const TokenTrie& vocabulary, TableBuilder& builder) {
  struct Place {
    uint32_t state;
    uint32_t units;
  };
  const AutomatonRule& rule = automaton.rules[automaton.states[state].rule];
  const ByteTable bytes(automaton, rule);
  const auto nodes = vocabulary.nodes();
  std::vector<Place> path(vocabulary.max_depth() + 1);
  path[0] = {state, 0};
  for (size_t i = 0; i < nodes.size() && !builder.too_many();) {
    const TokenTrie::Node& node = nodes[i];
    const Place from = path[node.depth - 1U];
    const uint32_t to = bytes.next(from.state, node.byte);
    if (to == kDead) {
      i = node.end;
      continue;
    }
    const bool between = rule.is_loop && to == rule.start;
    const bool in_tail = rule.is_loop && to >= rule.tail_start;
    const uint32_t units = from.units + static_cast<uint32_t>(between);
    path[node.depth] = {to, units};
    if (in_tail) {
      builder.add_ending(node, units);
    } else {
      builder.add_inside(node, units + static_cast<uint32_t>(rule.is_loop && !between));
    }
    if (automaton.states[to].accepts) {
      builder.add_exit(i, units);
    }
    i = automaton.states[to].n_edges > 0 ? i + 1 : node.end;
  }
}

void walk_rules(const Automaton& automaton, uint32_t state, const TokenTrie& vocabulary, TableBuilder& builder) {
  const auto nodes = vocabulary.nodes();
  MatchStack stack(automaton);
  std::vector<MatchStack::Position> path(vocabulary.max_depth() + 1);
  path[0] = stack.begin_at(state);
  for (size_t i = 0; i < nodes.size() && !builder.too_many();) {
    const TokenTrie::Node& node = nodes[i];
    stack.drop_after(path[node.depth - 1U]);
    const MatchStack::Position position = stack.step(path[node.depth - 1U], node.byte);
    if (position.dead()) {
      i = node.end;
      continue;
    }
    path[node.depth] = position;
    builder.add_inside(node, 0);
    if (position.complete) {
      builder.add_exit(i, 0);
    }
    i = position.first_item < position.last_item ? i + 1 : node.end;
  }
}

}  // namespace

size_t TokenTable::memory_bytes() const {
  size_t bytes = sizeof(TokenTable) + inside.size() * sizeof(TokenId) + n_up_to.size() * sizeof(uint32_t) +
                 inside_mask.size() * sizeof(uint64_t);
  for (const Exit& exit : exits) {
    bytes += sizeof(Exit) + exit.ending.size() * sizeof(TokenId) + exit.after.memory_bytes();
  }
  return bytes;
}

TokenTable make_token_table(const Automaton& automaton, uint32_t state, const TokenTrie& vocabulary,
                            const std::vector<std::string>& token_bytes) {
  TableBuilder builder(automaton, state, vocabulary, token_bytes);
  if (automaton.rules[automaton.states[state].rule].calls) {
    walk_rules(automaton, state, vocabulary, builder);
  } else {
    walk_leaf(automaton, state, vocabulary, builder);
  }
  if (builder.too_many()) {
    TokenTable table;
    table.n_up_to.push_back(0);
    table.walk_vocabulary = true;
    return table;
  }
  return builder.take();
}

std::string token_table_key(const Automaton& automaton, uint32_t state) {
  const AutomatonRule& rule = automaton.rules[automaton.states[state].rule];
  std::string key;
  const auto append = [&key](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  append(state - rule.start);
  append(rule.is_loop ? rule.tail_start - rule.start : kDead);
  for (uint32_t s = rule.start; s < rule.start + rule.n_states; ++s) {
    append(static_cast<uint32_t>(automaton.states[s].accepts));
    append(automaton.states[s].n_edges);
    for (const AutomatonEdge& edge : automaton.edges(automaton.states[s])) {
      append(uint32_t{edge.first} << 16 | edge.last);
      append(edge.target - rule.start);
    }
  }
  key += rule.follow.to_string();
  return key;
}

}  // namespace fathom
