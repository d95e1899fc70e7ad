#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fathom {

AddedTokens::AddedTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& e) { return e.literal.empty(); });
  std::ranges::stable_sort(entries_, {}, &Entry::literal);
  const auto is_repeated = [](const Entry& a, const Entry& b) { return a.literal == b.literal; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), is_repeated), entries_.end());
  for (const Entry& e : entries_) {
    first_bytes_.set(static_cast<uint8_t>(e.literal.front()));
  }
}

std::optional<TokenId> AddedTokens::find(std::string_view literal) const {
  const auto entry = std::ranges::lower_bound(entries_, literal, {}, &Entry::literal);
  if (entry == entries_.end() || entry->literal != literal) {
    return std::nullopt;
  }
  return entry->token;
}

AddedTokenScanner::AddedTokenScanner(const AddedTokens& tokens, std::string_view text, const EncodeOptions& options)
    : tokens_(tokens), text_(text), options_(options) {
  for (size_t i = 1; i < options.trusted.size(); ++i) {
    FATHOM_CHECK(options.trusted[i - 1].end <= options.trusted[i].begin, "trusted spans ascend and do not overlap");
  }
}

std::optional<AddedTokenScanner::Match> AddedTokenScanner::next() {
  if (options_.added_tokens == AddedTokenPolicy::kNowhere) {
    return std::nullopt;
  }
  for (; pos_ < text_.size(); ++pos_) {
    if (!tokens_.first_bytes_[static_cast<uint8_t>(text_[pos_])]) {
      continue;
    }
    if (const auto match = longest_at(pos_)) {
      pos_ = match->span.end;
      return match;
    }
  }
  return std::nullopt;
}

// Narrows the sorted entries, byte by byte, to those that begin like the text at `pos`.
std::optional<AddedTokenScanner::Match> AddedTokenScanner::longest_at(size_t pos) {
  std::optional<Match> longest;
  auto first = tokens_.entries_.begin();
  auto last = tokens_.entries_.end();
  for (size_t length = 0; first != last; ++length) {
    if (first->literal.size() == length) {
      if (may_count(first->literal, pos)) {
        longest = Match{{pos, pos + length}, first->token};
      }
      ++first;
    }
    if (pos + length == text_.size()) {
      break;
    }
    const auto byte_at_length = [&](const AddedTokens::Entry& e) { return static_cast<uint8_t>(e.literal[length]); };
    const auto byte = static_cast<uint8_t>(text_[pos + length]);
    last = std::ranges::upper_bound(first, last, byte, {}, byte_at_length);
    first = std::ranges::lower_bound(first, last, byte, {}, byte_at_length);
  }
  return longest;
}

bool AddedTokenScanner::may_count(std::string_view literal, size_t pos) {
  if (options_.added_tokens == AddedTokenPolicy::kEverywhere ||
      (options_.markup_everywhere && literal::is_markup(literal))) {
    return true;
  }
  auto& trusted = options_.trusted;
  while (!trusted.empty() && trusted.front().end <= pos) {
    trusted = trusted.subspan(1);
  }
  size_t trusted_end = pos;
  for (size_t i = 0; i < trusted.size() && trusted[i].begin <= trusted_end; ++i) {
    trusted_end = std::max(trusted_end, trusted[i].end);
  }
  return trusted_end >= pos + literal.size();
}

}  // namespace fathom
