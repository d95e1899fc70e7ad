// The text of one reply as its tokens arrive.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/utf8.h"
#include "sampling/stop_matcher.h"
#include "tokenizer/tokenizer.h"

namespace fathom::cli {

// What a reply is made of.
struct ReplyPiece {
  std::string reasoning;
  std::string answer;
};

class ReplyText {
 public:
  enum class Start : uint8_t {
    kRaw,        // every token is text
    kAnswer,     // control tokens are not shown
    kReasoning,  // the same, and reasoning comes first, up to its end mark
  };

  // `tokenizer` outlives the reply. Stop strings are looked for in the answer only; an empty one throws kBadRequest.
  ReplyText(const Tokenizer& tokenizer, Start start, const std::vector<std::string>& stops);

  [[nodiscard]] ReplyPiece push(TokenId token);
  [[nodiscard]] ReplyPiece finish();
  [[nodiscard]] bool stopped() const { return stop_.matched().has_value(); }

 private:
  const Tokenizer& tokenizer_;
  bool raw_;
  bool in_reasoning_;
  std::optional<TokenId> end_think_;
  Utf8Stream utf8_;
  StopMatcher stop_;
};

}  // namespace fathom::cli
