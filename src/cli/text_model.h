// What lies beside the weights of a model and is needed to talk with it.
#pragma once

#include "chat/prompt.h"
#include "tokenizer/tokenizer.h"
#include "weights/weight_source.h"

namespace fathom::cli {

// Throws Error kBadModel when there is no tokenizer or it is damaged.
[[nodiscard]] Tokenizer load_tokenizer(const WeightSource& source);

[[nodiscard]] ChatDialect chat_dialect(const WeightSource& source);

// Whether prompts can be written as a chat.
[[nodiscard]] bool has_chat_tokens(const Tokenizer& tokenizer);

// Names the key that `convert` writes for models whose name does not tell their dialect.
inline constexpr const char* kDialectKey = "fathom.chat_dialect";

}  // namespace fathom::cli
