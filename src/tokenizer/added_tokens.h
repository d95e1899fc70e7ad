// Added tokens: literals that are cut out of a text before anything else looks at it.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/prompt_text.h"

namespace fathom {

enum class AddedTokenPolicy : uint8_t {
  kEverywhere,  // every literal counts, as in the official pipeline
  kNowhere,     // all text is ordinary
  kTrusted,     // a literal counts where all of it lies in trusted text
};

struct EncodeOptions {
  AddedTokenPolicy added_tokens = AddedTokenPolicy::kEverywhere;
  // For kTrusted: the trusted bytes, ascending and disjoint; spans that touch act as one.
  std::span<const TextSpan> trusted = {};
  // For kTrusted: <think>, </think> and the DSML mark count in untrusted text too.
  bool markup_everywhere = true;
};

// Owns the literals.
class AddedTokens {
 public:
  struct Entry {
    std::string literal;
    TokenId token = 0;
  };

  AddedTokens() = default;
  // Of equal literals the first counts; empty ones never match.
  explicit AddedTokens(std::vector<Entry> entries);

  [[nodiscard]] std::optional<TokenId> find(std::string_view literal) const;

 private:
  friend class AddedTokenScanner;
  std::vector<Entry> entries_;    // sorted by literal
  std::bitset<256> first_bytes_;  // of the literals
};

// The added tokens of one text from left to right: leftmost first, then longest.
class AddedTokenScanner {
 public:
  struct Match {
    TextSpan span;
    TokenId token = 0;
  };

  // All three outlive the scanner.
  AddedTokenScanner(const AddedTokens& tokens, std::string_view text, const EncodeOptions& options);

  [[nodiscard]] std::optional<Match> next();

 private:
  [[nodiscard]] std::optional<Match> longest_at(size_t pos);
  [[nodiscard]] bool may_count(std::string_view literal, size_t pos);

  const AddedTokens& tokens_;
  std::string_view text_;
  EncodeOptions options_;
  size_t pos_ = 0;
};

}  // namespace fathom
