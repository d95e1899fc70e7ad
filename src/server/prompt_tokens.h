// Rendered prompts as token ids.
#pragma once

#include <vector>

#include "chat/prompt.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Control tokens count only where the renderer wrote them.
[[nodiscard]] std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt);

}  // namespace fathom
