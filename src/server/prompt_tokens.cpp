#include "server/prompt_tokens.h"

#include <algorithm>

namespace fathom {
namespace {

// The trusted bytes within a part of the text, counted from its beginning.
std::vector<TextSpan> trusted_within(const std::vector<TextSpan>& trusted, TextSpan part) {
  std::vector<TextSpan> within;
  for (const TextSpan& span : trusted) {
    const size_t begin = std::max(span.begin, part.begin);
    const size_t end = std::min(span.end, part.end);
    if (begin < end) {
      within.push_back({begin - part.begin, end - part.begin});
    }
  }
  return within;
}

void append_part(const Tokenizer& tokenizer, const RenderedPrompt& prompt, TextSpan part, std::vector<TokenId>& out) {
  const std::vector<TextSpan> trusted = trusted_within(prompt.trusted, part);
  const std::vector<TokenId> ids =
      tokenizer.encode(std::string_view(prompt.text).substr(part.begin, part.end - part.begin),
                       {.added_tokens = AddedTokenPolicy::kTrusted, .trusted = trusted, .markup_everywhere = false});
  out.insert(out.end(), ids.begin(), ids.end());
}

}  // namespace

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt) {
  std::vector<TokenId> ids;
  size_t begin = 0;
  for (const RenderedPrompt::Sampled& sampled : prompt.sampled) {
    append_part(tokenizer, prompt, {begin, sampled.span.begin}, ids);
    ids.insert(ids.end(), sampled.reply->tokens.begin(), sampled.reply->tokens.end());
    begin = sampled.span.end;
  }
  append_part(tokenizer, prompt, {begin, prompt.text.size()}, ids);
  return ids;
}

std::vector<int> prompt_anchors(const Tokenizer& tokenizer, std::span<const TokenId> prompt) {
  constexpr size_t kMaxAnchors = 4;
  const ChatTokens tokens = tokenizer.require_chat_tokens();
  std::vector<int> anchors;
  const auto first_user = std::ranges::find(prompt, tokens.user);
  if (first_user != prompt.end() && first_user != prompt.begin()) {
    anchors.push_back(static_cast<int>(first_user - prompt.begin()));
  }
  for (size_t i = prompt.size(); i > 0 && anchors.size() < kMaxAnchors; --i) {
    if (prompt[i - 1] == tokens.assistant) {
      anchors.push_back(static_cast<int>(i));
    }
  }
  return anchors;
}

}  // namespace fathom
