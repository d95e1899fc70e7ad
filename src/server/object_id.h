// Names for what the APIs return.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// `prefix` and 24 letters and digits that cannot be guessed.
[[nodiscard]] std::string object_id(std::string_view prefix);

}  // namespace fathom
