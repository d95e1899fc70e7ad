// A checkpoint in the layout that DeepSeek publishes: linear layers FP8 with scales per 128 x 128, routed experts
// packed FP4 with scales per row and 32 columns, the rest as it was.
#pragma once

#include <filesystem>

namespace fathom::test {

// Quantises a directory that has the official names (support/oracle.h) into a new directory `out`.
void make_official_checkpoint(const std::filesystem::path& source, const std::filesystem::path& out);

}  // namespace fathom::test
