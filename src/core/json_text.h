// JSON from a file or a peer that is not trusted: parsed with limits, and errors say where.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fathom {

// `name` stands for the text in messages. Keys come out sorted: keeping their order would cost a look at all others for
// each. Throws kBadModel for invalid JSON, nesting deeper than 64, and a key that occurs twice in one object (two
// readers could disagree on which counts).
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name);

// The description in nlohmann's exception, without its tag and safe to print.
[[nodiscard]] std::string json_error_text(const std::string& what);

}  // namespace fathom
