// Numbers as people type and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom::cli {

// A count or a size: "512", "1.5K", "80G". K, M, G and T are powers of 1024; a following "B" or "iB" and lower case are
// accepted. Throws Error kBadRequest for anything else, a negative value, or one that is no whole number.
[[nodiscard]] uint64_t parse_size(std::string_view text);

// "17 B", "15.3 MiB", "80.8 GiB".
[[nodiscard]] std::string format_bytes(uint64_t bytes);

// "4096", "14.4 M", "284.3 B": decimal, for counts of parameters.
[[nodiscard]] std::string format_count(uint64_t count);

}  // namespace fathom::cli
