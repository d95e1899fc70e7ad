// Finds stop strings in text that arrives in pieces, and holds back exactly what may still become one.
// The match is the one that ends first; of those that end together, the longest. So the result does not depend on how
// the text was cut.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

class StopMatcher {
 public:
  // Throws kBadRequest for an empty stop string.
  explicit StopMatcher(std::span<const std::string> stops);

  // Takes the next piece and returns the text that cannot be part of a stop string any more. Pieces of whole UTF-8
  // characters come out as whole characters. After a match the rest of the text is dropped.
  [[nodiscard]] std::string feed(std::string_view piece);
  // The text is over: what was held back.
  [[nodiscard]] std::string finish();
  // The stop string that was found, as an index into the constructor's argument.
  [[nodiscard]] std::optional<size_t> matched() const { return matched_; }

 private:
  // One node of the Aho-Corasick automaton: a prefix of some stop string.
  struct Node {
    std::vector<std::pair<char, int>> next;
    size_t depth = 0;             // length of the prefix
    int fallback = 0;             // the node of its longest proper suffix
    std::optional<size_t> match;  // the longest stop string that this prefix ends with
  };

  void add(std::string_view stop, size_t index);
  void link();
  [[nodiscard]] int child(int node, char c) const;
  [[nodiscard]] int advance(int node, char c) const;

  std::vector<Node> nodes_;
  std::vector<size_t> lengths_;  // of the stop strings
  int node_ = 0;
  std::string held_;
  std::optional<size_t> matched_;
};

}  // namespace fathom
