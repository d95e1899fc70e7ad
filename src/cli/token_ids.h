// Token ids as text: whitespace-separated decimal numbers, one sequence a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace fathom::cli {

// `source` names the text in errors. Throws Error kBadRequest with the line of a word that is no id in [0, vocab).
[[nodiscard]] std::vector<TokenId> parse_token_ids(std::string_view text, int vocab, const std::string& source);

// Space-separated, without a newline at the end.
[[nodiscard]] std::string format_token_ids(const std::vector<TokenId>& ids);

}  // namespace fathom::cli
