// Where in a grammar a text may be: all parses at once, as an Earley parser keeps them. What was started at the same
// place with the same rule shares one frame, so ambiguity costs no more than the number of rules and places.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "grammar/automaton.h"

namespace fathom {

// A position in a rule that was started as a frame says.
struct MatchItem {
  uint32_t state = 0;
  uint32_t count = 0;  // units of a counted loop that are complete
  uint32_t frame = 0;

  friend bool operator==(const MatchItem&, const MatchItem&) = default;
};

// What goes on when a rule ends: a state of the caller, in the caller's frame.
struct MatchReturn {
  uint32_t state = 0;
  uint32_t frame = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): what the compiler makes of it compares with a literal 0
  friend auto operator<=>(const MatchReturn&, const MatchReturn&) = default;
};

// Positions as slices of stacks that grow with every step: dropping the latest ones is cheap. Frames refer to earlier
// frames only; the first is that of the root.
class MatchStack {
 public:
  struct Position {
    uint32_t first_item = 0, last_item = 0;  // those that can read a symbol
    uint32_t n_frames = 0, n_returns = 0;    // sizes of the stacks
    bool complete = false;                   // the text may end here

    [[nodiscard]] bool dead() const { return first_item == last_item && !complete; }
  };

  explicit MatchStack(const Automaton& automaton);

  // At the beginning of the text.
  [[nodiscard]] Position begin();
  // Inside one rule, about to read along the edges of a state (not those of its calls), as if the grammar were this
  // rule: `complete` is its end.
  [[nodiscard]] Position begin_at(uint32_t state);
  // One item of a position; `from` is the latest position.
  [[nodiscard]] Position only(const Position& from, const MatchItem& item);
  // Where the rule of `frame` has just ended; `from` is the latest position.
  [[nodiscard]] Position leave(const Position& from, uint32_t frame);
  // After one more symbol; `from` need not be the latest position.
  [[nodiscard]] Position step(const Position& from, Symbol symbol);
  // Forgets all positions later than this one.
  void drop_after(const Position& position);

  [[nodiscard]] std::span<const MatchItem> items(const Position& position) const {
    return {items_.data() + position.first_item, position.last_item - position.first_item};
  }
  [[nodiscard]] std::span<const MatchReturn> returns(uint32_t frame) const {
    const uint32_t end = frame + 1 < frames_.size() ? frames_[frame + 1] : static_cast<uint32_t>(returns_.size());
    return {returns_.data() + frames_[frame], end - frames_[frame]};
  }
  [[nodiscard]] const Automaton& automaton() const { return *automaton_; }
  [[nodiscard]] size_t n_frames() const { return frames_.size(); }
  // Items made so far: a measure of the work done.
  [[nodiscard]] uint64_t n_items_made() const { return n_items_made_; }

  // Keeps one position and what it needs, in a form that depends on what it means alone.
  [[nodiscard]] Position compact(const Position& position);
  // Equal for positions with the same future. `position` is the result of compact().
  [[nodiscard]] std::string key(const Position& position) const;

 private:
  struct Pending {
    uint32_t rank;
    RuleId rule;
    MatchReturn to;
  };

  void start_stacks();
  [[nodiscard]] bool has_reached(const MatchItem& item);
  void clear_work();
  void enter(uint32_t state, uint32_t count, uint32_t frame);
  void call(const AutomatonCall& call, uint32_t frame);
  void end_rule(uint32_t frame);
  [[nodiscard]] Position close();
  [[nodiscard]] bool may_end(const AutomatonState& state, uint32_t state_id, uint32_t count) const;

  const Automaton* automaton_;
  std::vector<MatchItem> items_;
  std::vector<uint32_t> frames_;  // the first of each one's returns
  std::vector<MatchReturn> returns_;
  uint64_t n_items_made_ = 0;

  // Of the position being made.
  std::vector<MatchItem> reached_;
  size_t n_expanded_ = 0;        // of reached_
  size_t n_hashed_ = 0;          // of reached_
  std::vector<uint32_t> slots_;  // 1 + index in reached_, by hash
  std::vector<Pending> pending_;
  std::vector<uint32_t> ended_;  // frames
  bool complete_ = false;
};

// One text on its way through a grammar. A copy is a few hundred bytes.
class Matcher {
 public:
  explicit Matcher(const Automaton& automaton);

  // False: the text cannot go on this way, and the matcher is as before.
  [[nodiscard]] bool accept(std::span<const Symbol> symbols);
  [[nodiscard]] bool accept(std::string_view bytes);
  [[nodiscard]] bool complete() const { return position_.complete; }
  // Nothing can follow.
  [[nodiscard]] bool exhausted() const { return position_.first_item == position_.last_item; }

  [[nodiscard]] MatchStack& stack() { return stack_; }
  [[nodiscard]] const MatchStack::Position& position() const { return position_; }
  [[nodiscard]] std::string key() const { return stack_.key(position_); }

 private:
  MatchStack stack_;
  MatchStack::Position position_;
};

}  // namespace fathom
