// JSON whose order of keys counts, because it becomes part of a prompt: read from a client, written as the model was
// trained on it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// Keys keep their order; of equal keys the first gives the place and the last the value. Half a surrogate pair becomes
// U+FFFD. An integer too large for 64 bits becomes a binary value with its digits, which JSON has no other use for.
// nullopt: not JSON, nested deeper than 128, or with a number that no double can hold. Takes linear time.
[[nodiscard]] std::optional<nlohmann::ordered_json> parse_ordered_json(std::string_view text);

// As above; throws Error kBadRequest that names the text and says what is wrong.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& name);

// The bytes of Python's json.dumps(value, ensure_ascii=False).
[[nodiscard]] std::string python_json(const nlohmann::ordered_json& value);

// A JSON string literal, without its quotes, as above. `text` may be a piece of a longer string.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace fathom
