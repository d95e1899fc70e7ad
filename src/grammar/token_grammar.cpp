#include "grammar/token_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/printable.h"

namespace fathom {
namespace {

constexpr size_t kMaxMasks = 512;
constexpr size_t kMaxTableBytes = size_t{64} << 20;
// About half a second.
constexpr uint64_t kMaxItemsPerMask = 10'000'000;

void set_bit(std::vector<uint64_t>& mask, TokenId token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}

// The tokens of `trie` that can be read from `start`, the latest position of `stack`.
void walk(const TokenTrie& trie, MatchStack& stack, const MatchStack::Position& start, std::vector<uint64_t>& mask) {
  const auto nodes = trie.nodes();
  std::vector<MatchStack::Position> path(trie.max_depth() + 1);
  path[0] = start;
  const uint64_t limit = stack.n_items_made() + kMaxItemsPerMask;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    stack.drop_after(path[node.depth - 1U]);
    const MatchStack::Position position = stack.step(path[node.depth - 1U], node.byte);
    if (position.dead()) {
      i = node.end;
      continue;
    }
    if (stack.n_items_made() > limit) {
      throw Error(ErrorCode::kBadRequest, "grammar: too ambiguous: finding the next token takes too long");
    }
    path[node.depth] = position;
    for (const TokenId token : trie.tokens(node)) {
      set_bit(mask, token);
    }
    i = position.first_item < position.last_item ? i + 1 : node.end;
  }
  stack.drop_after(start);
}

// The tokens of a table that need at most `units` more units.
void add_inside(const TokenTable& table, uint32_t units, std::vector<uint64_t>& mask) {
  const bool all = units >= table.max_units();
  const size_t n = all ? table.inside.size() : table.n_up_to[units];
  if (table.inside_mask.empty() || n < table.inside.size() / 4) {
    for (size_t i = 0; i < n; ++i) {
      set_bit(mask, table.inside[i]);
    }
    return;
  }
  if (all) {
    for (size_t word = 0; word < mask.size(); ++word) {
      mask[word] |= table.inside_mask[word];
    }
    return;
  }
  std::vector<uint64_t> some = table.inside_mask;
  for (size_t i = n; i < table.inside.size(); ++i) {
    const auto token = static_cast<size_t>(table.inside[i]);
    some[token / 64] &= ~(uint64_t{1} << (token % 64));
  }
  for (size_t word = 0; word < mask.size(); ++word) {
    mask[word] |= some[word];
  }
}

}  // namespace

TokenGrammar::TokenGrammar(const Grammar& grammar, std::shared_ptr<const GrammarVocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)), automaton_(compile_grammar(grammar)) {
  for (const std::string& literal : automaton_.tokens) {
    const auto token = vocabulary_->find_token(literal);
    if (!token) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("grammar: the model has no control token '{}'", printable(literal)));
    }
    tokens_.push_back(*token);
  }
}

bool TokenGrammar::accept(Matcher& matcher, TokenId token) const {
  if (token < 0 || static_cast<size_t>(token) >= vocab()) {
    return false;
  }
  if (const auto found = std::find(tokens_.begin(), tokens_.end(), token); found != tokens_.end()) {
    const auto symbol = static_cast<Symbol>(kFirstToken + (found - tokens_.begin()));
    return matcher.accept(std::span(&symbol, 1));
  }
  const std::string& bytes = vocabulary_->bytes()[static_cast<size_t>(token)];
  return !bytes.empty() && matcher.accept(bytes);
}

void TokenGrammar::fill_mask(Matcher& matcher, std::vector<uint64_t>& mask) const {
  const std::string key = matcher.key();
  const std::lock_guard lock(mutex_);
  if (const auto found = masks_.find(key); found != masks_.end()) {
    mask = found->second;
    return;
  }
  compute_mask(matcher, mask);
  if (masks_.size() == kMaxMasks) {
    masks_.clear();
  }
  masks_.emplace(key, mask);
}

void TokenGrammar::compute_mask(Matcher& matcher, std::vector<uint64_t>& mask) const {
  mask.assign((vocab() + 63) / 64, 0);
  MatchStack& stack = matcher.stack();
  const MatchStack::Position& position = matcher.position();
  const std::vector<MatchItem> items(stack.items(position).begin(), stack.items(position).end());
  for (const MatchItem& item : items) {
    add_item(stack, position, item, mask);
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!stack.step(position, static_cast<Symbol>(kFirstToken + i)).dead()) {
      set_bit(mask, tokens_[i]);
    }
    stack.drop_after(position);
  }
}

void TokenGrammar::add_item(MatchStack& stack, const MatchStack::Position& position, const MatchItem& item,
                            std::vector<uint64_t>& mask) const {
  const TokenTable& from = table(item.state);
  const AutomatonRule& rule = automaton_.rules[automaton_.states[item.state].rule];
  if (from.walk_vocabulary) {
    MatchStack::Position alone = stack.only(position, item);
    walk(vocabulary_->trie(), stack, alone, mask);
    stack.drop_after(position);
    return;
  }
  const uint32_t room = rule.is_loop && rule.max_count != kUnlimited ? rule.max_count - item.count : kUnlimited;
  add_inside(from, room, mask);
  for (const TokenTable::Exit& exit : from.exits) {
    if (exit.units > room || (rule.is_loop && item.count + exit.units < rule.min_count)) {
      continue;
    }
    for (const TokenId token : exit.ending) {
      set_bit(mask, token);
    }
    if (!exit.after.empty()) {
      walk(exit.after, stack, stack.leave(position, item.frame), mask);
      stack.drop_after(position);
    }
  }
}

const TokenTable& TokenGrammar::table(uint32_t state) const {
  const auto found = tables_.find(state);
  if (found != tables_.end()) {
    return *found->second;
  }
  std::shared_ptr<const TokenTable> made;
  if (automaton_.rules[automaton_.states[state].rule].calls) {
    made = std::make_shared<const TokenTable>(
        make_token_table(automaton_, state, vocabulary_->trie(), vocabulary_->bytes()));
  } else {
    made = vocabulary_->shared_table(automaton_, state);
  }
  if (tables_bytes_ > kMaxTableBytes) {
    tables_.clear();
    tables_bytes_ = 0;
  }
  tables_bytes_ += made->memory_bytes();
  return *tables_.emplace(state, std::move(made)).first->second;
}

void TokenGrammar::forget_masks() const {
  const std::lock_guard lock(mutex_);
  masks_.clear();
}

void TokenGrammar::prepare() const {
  constexpr uint32_t kManyBytes = 64;
  constexpr int kMaxTables = 64;
  int n_made = 0;
  for (uint32_t s = 0; s < automaton_.states.size() && n_made < kMaxTables; ++s) {
    uint32_t n_bytes = 0;
    for (const AutomatonEdge& edge : automaton_.edges(automaton_.states[s])) {
      n_bytes += edge.last - edge.first + 1U;
    }
    if (n_bytes >= kManyBytes) {
      const std::lock_guard lock(mutex_);
      static_cast<void>(table(s));
      ++n_made;
    }
  }
}

}  // namespace fathom
