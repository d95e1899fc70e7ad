#include "cli/reply_text.h"

#include <utility>

#include "core/prompt_text.h"

namespace fathom::cli {

ReplyText::ReplyText(const Tokenizer& tokenizer, Start start, const std::vector<std::string>& stops)
    : tokenizer_(tokenizer),
      raw_(start == Start::kRaw),
      in_reasoning_(start == Start::kReasoning),
      end_think_(tokenizer.find(literal::kEndThink)),
      stop_(stops) {}

ReplyPiece ReplyText::push(TokenId token) {
  ReplyPiece piece;
  if (in_reasoning_ && token == end_think_) {
    in_reasoning_ = false;
    piece.reasoning = utf8_.finish();
  } else if (raw_ || !tokenizer_.is_control(token)) {
    std::string text = utf8_.push(tokenizer_.token_bytes(token));
    if (in_reasoning_) {
      piece.reasoning = std::move(text);
    } else {
      piece.answer = stop_.feed(text);
    }
  }
  return piece;
}

ReplyPiece ReplyText::finish() {
  const std::string rest = utf8_.finish();
  if (in_reasoning_) {
    return {.reasoning = rest, .answer = {}};
  }
  std::string answer = stop_.feed(rest);
  answer += stop_.finish();
  return {.reasoning = {}, .answer = std::move(answer)};
}

}  // namespace fathom::cli
