#include "grammar/matcher.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace fathom {
namespace {

// The state of a return that ends the text.
constexpr uint32_t kEndOfText = std::numeric_limits<uint32_t>::max();

constexpr uint32_t kRootFrame = 0;

// More parses at once than any sensible grammar has.
constexpr size_t kMaxItems = 1000;
constexpr size_t kMaxReturns = 1'000'000;

}  // namespace

MatchStack::MatchStack(const Automaton& automaton) : automaton_(&automaton) { start_stacks(); }

void MatchStack::start_stacks() {
  items_.clear();
  frames_ = {0};
  returns_ = {{kEndOfText, kRootFrame}};
}

MatchStack::Position MatchStack::begin() {
  start_stacks();
  const AutomatonRule& root = automaton_->rules[automaton_->root];
  complete_ = root.nullable;
  pending_.push_back({root.rank, automaton_->root, {kEndOfText, kRootFrame}});
  return close();
}

MatchStack::Position MatchStack::begin_at(uint32_t state) {
  start_stacks();
  items_.push_back({state, 0, kRootFrame});
  return {.first_item = 0, .last_item = 1, .n_frames = 1, .n_returns = 1};
}

MatchStack::Position MatchStack::only(const Position& from, const MatchItem& item) {
  drop_after(from);
  items_.push_back(item);
  return {.first_item = from.last_item,
          .last_item = from.last_item + 1,
          .n_frames = from.n_frames,
          .n_returns = from.n_returns};
}

MatchStack::Position MatchStack::leave(const Position& from, uint32_t frame) {
  drop_after(from);
  end_rule(frame);
  return close();
}

MatchStack::Position MatchStack::step(const Position& from, Symbol symbol) {
  for (uint32_t i = from.first_item; i < from.last_item; ++i) {
    const MatchItem item = items_[i];
    const AutomatonState& state = automaton_->states[item.state];
    const auto edges = automaton_->edges(state);
    const auto edge = std::find_if(edges.begin(), edges.end(), [symbol](const auto& e) { return e.last >= symbol; });
    if (edge == edges.end() || edge->first > symbol) {
      continue;
    }
    const AutomatonRule& rule = automaton_->rules[state.rule];
    if (!rule.is_loop) {
      enter(edge->target, 0, item.frame);
      continue;
    }
    const bool leaves = edge->target >= rule.tail_start;
    if (item.state == rule.start && (leaves ? item.count < rule.min_count : item.count == rule.max_count)) {
      continue;
    }
    const uint32_t most = rule.max_count == kUnlimited ? rule.min_count : rule.max_count;
    const uint32_t count = edge->target == rule.start ? std::min(item.count + 1, most) : item.count;
    enter(edge->target, leaves ? 0 : count, item.frame);
  }
  return close();
}

bool MatchStack::may_end(const AutomatonState& state, uint32_t state_id, uint32_t count) const {
  if (!state.accepts) {
    return false;
  }
  const AutomatonRule& rule = automaton_->rules[state.rule];
  return !rule.is_loop || state_id != rule.start || count >= rule.min_count;
}

void MatchStack::enter(uint32_t state, uint32_t count, uint32_t frame) {
  const MatchItem item{state, count, frame};
  if (has_reached(item)) {
    return;
  }
  if (reached_.size() == kMaxItems || returns_.size() > kMaxReturns) {
    clear_work();
    throw Error(ErrorCode::kBadRequest, "grammar: too ambiguous: a text has hundreds of parses at once");
  }
  reached_.push_back(item);
  ++n_items_made_;
}

// Most positions are a handful of items; the others are looked up by hash.
bool MatchStack::has_reached(const MatchItem& item) {
  constexpr size_t kFew = 16;
  if (reached_.size() < kFew) {
    return std::find(reached_.begin(), reached_.end(), item) != reached_.end();
  }
  const auto hash = [](const MatchItem& i) {
    return (uint64_t{i.state} * 0x9e3779b97f4a7c15 + uint64_t{i.frame} * 0xc2b2ae3d27d4eb4f + i.count) >> 7;
  };
  const auto find_slot = [&](const MatchItem& i) -> uint32_t& {
    size_t slot = hash(i) % slots_.size();
    while (slots_[slot] != 0 && !(reached_[slots_[slot] - 1] == i)) {
      slot = (slot + 1) % slots_.size();
    }
    return slots_[slot];
  };
  if (n_hashed_ == 0) {
    slots_.assign(4 * kMaxItems, 0);
  }
  for (; n_hashed_ < reached_.size(); ++n_hashed_) {
    find_slot(reached_[n_hashed_]) = static_cast<uint32_t>(n_hashed_ + 1);
  }
  return find_slot(item) != 0;
}

void MatchStack::clear_work() {
  reached_.clear();
  pending_.clear();
  ended_.clear();
  n_expanded_ = 0;
  n_hashed_ = 0;
  complete_ = false;
}

void MatchStack::end_rule(uint32_t frame) {
  if (std::find(ended_.begin(), ended_.end(), frame) != ended_.end()) {
    return;
  }
  ended_.push_back(frame);
  for (const MatchReturn& to : returns(frame)) {
    if (to.state == kEndOfText) {
      complete_ = true;
    } else {
      enter(to.state, 0, to.frame);
    }
  }
}

// A call that nothing follows returns where its caller would: the stack does not grow with lists and chains.
void MatchStack::call(const AutomatonCall& call, uint32_t frame) {
  const AutomatonRule& rule = automaton_->rules[call.rule];
  const AutomatonState& after = automaton_->states[call.target];
  if (after.leads_on() || !after.accepts) {
    pending_.push_back({rule.rank, call.rule, {call.target, frame}});
  } else {
    for (const MatchReturn& to : returns(frame)) {
      pending_.push_back({rule.rank, call.rule, to});
    }
  }
  if (rule.nullable) {
    enter(call.target, 0, frame);
  }
}

// First all that older frames lead to; then the rules that begin here, callers before callees, so that every frame is
// made once with all of its returns.
MatchStack::Position MatchStack::close() {
  const uint32_t n_old_frames = static_cast<uint32_t>(frames_.size());
  const auto later = [](const Pending& a, const Pending& b) { return std::tie(a.rank, a.to) > std::tie(b.rank, b.to); };
  while (true) {
    for (; n_expanded_ < reached_.size(); ++n_expanded_) {
      const MatchItem item = reached_[n_expanded_];
      const AutomatonState& state = automaton_->states[item.state];
      // Rules that begin here and end at once were passed over by their callers.
      if (item.frame < n_old_frames && may_end(state, item.state, item.count)) {
        end_rule(item.frame);
      }
      for (const AutomatonCall& c : automaton_->calls(state)) {
        call(c, item.frame);
      }
    }
    if (pending_.empty()) {
      break;
    }
    std::make_heap(pending_.begin(), pending_.end(), later);
    const RuleId rule = pending_.front().rule;
    const auto frame = static_cast<uint32_t>(frames_.size());
    frames_.push_back(static_cast<uint32_t>(returns_.size()));
    while (!pending_.empty() && pending_.front().rule == rule) {
      std::pop_heap(pending_.begin(), pending_.end(), later);
      const MatchReturn to = pending_.back().to;
      pending_.pop_back();
      if (returns_.size() == frames_.back() || returns_.back() != to) {
        returns_.push_back(to);
      }
    }
    enter(automaton_->rules[rule].start, 0, frame);
  }
  Position position{.first_item = static_cast<uint32_t>(items_.size()), .complete = complete_};
  for (const MatchItem& item : reached_) {
    if (automaton_->states[item.state].n_edges > 0) {
      items_.push_back(item);
    }
  }
  position.last_item = static_cast<uint32_t>(items_.size());
  position.n_frames = static_cast<uint32_t>(frames_.size());
  position.n_returns = static_cast<uint32_t>(returns_.size());
  clear_work();
  return position;
}

void MatchStack::drop_after(const Position& position) {
  items_.resize(position.last_item);
  frames_.resize(position.n_frames);
  returns_.resize(position.n_returns);
}

MatchStack::Position MatchStack::compact(const Position& position) {
  // Frames that are needed, callers before callees as they are.
  std::vector<bool> needed(frames_.size());
  needed[kRootFrame] = true;
  std::vector<uint32_t> places(frames_.size());
  std::vector<MatchItem> items(items_.begin() + position.first_item, items_.begin() + position.last_item);
  for (const MatchItem& item : items) {
    needed[item.frame] = true;
  }
  for (size_t frame = frames_.size(); frame-- > 0;) {
    if (needed[frame]) {
      for (const MatchReturn& to : returns(static_cast<uint32_t>(frame))) {
        needed[to.frame] = true;
      }
    }
  }
  std::vector<uint32_t> frames;
  std::vector<MatchReturn> all_returns;
  for (uint32_t frame = 0; frame < frames_.size(); ++frame) {
    if (needed[frame]) {
      places[frame] = static_cast<uint32_t>(frames.size());
      frames.push_back(static_cast<uint32_t>(all_returns.size()));
      for (const MatchReturn& to : returns(frame)) {
        all_returns.push_back({to.state, places[to.frame]});
      }
    }
  }
  for (MatchItem& item : items) {
    item.frame = places[item.frame];
  }
  std::sort(items.begin(), items.end(), [](const MatchItem& a, const MatchItem& b) {
    return std::tie(a.frame, a.state, a.count) < std::tie(b.frame, b.state, b.count);
  });
  items_ = std::move(items);
  frames_ = std::move(frames);
  returns_ = std::move(all_returns);
  return {.first_item = 0,
          .last_item = static_cast<uint32_t>(items_.size()),
          .n_frames = static_cast<uint32_t>(frames_.size()),
          .n_returns = static_cast<uint32_t>(returns_.size()),
          .complete = position.complete};
}

std::string MatchStack::key(const Position& position) const {
  std::string key;
  const auto append = [&key](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  append(static_cast<uint32_t>(position.complete));
  append(static_cast<uint32_t>(items_.size()));
  for (const MatchItem& item : items_) {
    append(item.state);
    append(item.count);
    append(item.frame);
  }
  for (uint32_t frame = 0; frame < frames_.size(); ++frame) {
    append(frames_[frame]);
    for (const MatchReturn& to : returns(frame)) {
      append(to.state);
      append(to.frame);
    }
  }
  return key;
}

Matcher::Matcher(const Automaton& automaton) : stack_(automaton) {
  position_ = stack_.begin();
  position_ = stack_.compact(position_);
}

bool Matcher::accept(std::span<const Symbol> symbols) {
  MatchStack::Position next = position_;
  for (const Symbol symbol : symbols) {
    next = stack_.step(next, symbol);
    if (next.dead()) {
      stack_.drop_after(position_);
      return false;
    }
  }
  position_ = stack_.compact(next);
  return true;
}

bool Matcher::accept(std::string_view bytes) {
  std::vector<Symbol> symbols;
  for (const char c : bytes) {
    symbols.push_back(static_cast<unsigned char>(c));
  }
  return accept(symbols);
}

}  // namespace fathom
