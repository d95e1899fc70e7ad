// A grammar at work on one reply: from when on it counts, and when the reply may end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "grammar/token_grammar.h"

namespace fathom {

// What a request asks for.
struct GenerationConstraint {
  // The token after which the grammar begins.
  struct Trigger {
    TokenId token = 0;
    // Only where the token's "<" begins a line, or follows a control token or the prompt: a call, not talk about one.
    bool opens_line = false;
    // Until then the reply must not end, and these tokens must not come.
    bool required = false;
    std::vector<TokenId> forbidden_before = {};
  };

  std::shared_ptr<const TokenGrammar> grammar;
  std::optional<Trigger> trigger = {};  // unset: the grammar begins with the first generated token
  // The reply may end while the grammar's text is not complete.
  bool may_end_early = false;
};

// Follows one reply. Made again from the same tokens it is in the same state.
class ConstraintState {
 public:
  // `stop_tokens` end the reply.
  ConstraintState(GenerationConstraint constraint, std::span<const TokenId> stop_tokens);

  // Which tokens may come next, as bits; empty: all. Valid until the next call. Throws kBadRequest for a grammar that
  // is too ambiguous to be followed.
  [[nodiscard]] std::span<const uint64_t> allowed();
  // The token came; one that is allowed and ends no reply.
  void accept(TokenId token);
  // The text is complete and nothing can follow but the end.
  [[nodiscard]] bool finished() const;

 private:
  void wait_for_trigger(TokenId token);

  GenerationConstraint constraint_;
  std::vector<TokenId> stop_tokens_;
  std::optional<Matcher> matcher_;  // once the grammar counts
  std::string line_;                // before that: the last two bytes of text since the last control token
  std::vector<uint64_t> mask_;
};

}  // namespace fathom
