// Rendered prompts as token ids.
#pragma once

#include <span>
#include <vector>

#include "chat/prompt.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Control tokens count only where the renderer wrote them; sampled replies keep the tokens that they were sampled as.
[[nodiscard]] std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt);

// Where later prompts of the same conversation may go on differently: after the system message, and after the marks
// that begin the last answers, for what follows them depends on later turns.
[[nodiscard]] std::vector<int> prompt_anchors(const Tokenizer& tokenizer, std::span<const TokenId> prompt);

}  // namespace fathom
