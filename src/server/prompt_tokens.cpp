#include "server/prompt_tokens.h"

namespace fathom {

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt) {
  return tokenizer.encode(
      prompt.text, {.added_tokens = AddedTokenPolicy::kTrusted, .trusted = prompt.trusted, .markup_everywhere = false});
}

}  // namespace fathom
