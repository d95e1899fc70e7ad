#pragma once

#include <optional>

#include "core/dtype.h"

namespace fathom {

// How a prompt met what earlier sequences left behind.
struct PrefixMatch {
  int cached = 0;                  // tokens that were not computed again: those before the anchor that was used
  int matched = 0;                 // tokens in common with the stored sequence that agrees longest; here it differs
  std::optional<TokenId> instead;  // what that sequence has at position `matched`; unset: it ends there
};

}  // namespace fathom
