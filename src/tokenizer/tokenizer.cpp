#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "tokenizer/byte_alphabet.h"

namespace fathom {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kBadModel, "tokenizer: " + what); }

bool is_added(TokenType type) noexcept { return type == TokenType::kControl || type == TokenType::kUserDefined; }

// Converters disagree about the types of added tokens, and a file may have none: where the spelling tells, it decides.
TokenType corrected_type(std::string_view spelling, TokenType type) noexcept {
  constexpr std::string_view kOpen = "<\uFF5C";
  constexpr std::string_view kClose = "\uFF5C>";
  if (spelling.size() > kOpen.size() + kClose.size() && spelling.starts_with(kOpen) && spelling.ends_with(kClose)) {
    return TokenType::kControl;
  }
  return literal::is_markup(spelling) ? TokenType::kUserDefined : type;
}

void check_id(const TokenizerData& data, std::string_view name, std::optional<TokenId> token) {
  if (token && (*token < 0 || static_cast<size_t>(*token) >= data.tokens.size())) {
    fail(fmt::format("{} is {}, but there are {} tokens", name, *token, data.tokens.size()));
  }
}

TokenizerData checked(TokenizerData data) {
  if (data.tokens.size() > kMaxTokens) {
    fail(fmt::format("{} tokens, expected at most {}", data.tokens.size(), kMaxTokens));
  }
  if (data.types.empty()) {
    data.types.assign(data.tokens.size(), TokenType::kNormal);
  }
  if (data.types.size() != data.tokens.size()) {
    fail(fmt::format("{} token types for {} tokens", data.types.size(), data.tokens.size()));
  }
  check_id(data, "bos_token_id", data.bos);
  check_id(data, "eos_token_id", data.eos);
  check_id(data, "padding_token_id", data.pad);
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    data.types[i] = corrected_type(data.tokens[i], data.types[i]);
    if (is_added(data.types[i]) && data.tokens[i].size() > kMaxAddedTokenBytes) {
      fail(fmt::format("added token {} ('{}') has {} bytes, expected at most {}", i, printable(data.tokens[i]),
                       data.tokens[i].size(), kMaxAddedTokenBytes));
    }
  }
  return data;
}

// What each token stands for in a text. A spelling outside the byte alphabet stands for itself.
std::vector<std::string> token_texts(const TokenizerData& data) {
  std::vector<std::string> texts;
  texts.reserve(data.tokens.size());
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string& spelling = data.tokens[i];
    texts.push_back(is_added(data.types[i]) ? spelling : bytes_of_spelling(spelling).value_or(spelling));
  }
  return texts;
}

AddedTokens added_tokens(const TokenizerData& data) {
  std::vector<AddedTokens::Entry> entries;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (is_added(data.types[i])) {
      entries.push_back({data.tokens[i], static_cast<TokenId>(i)});
    }
  }
  return AddedTokens(std::move(entries));
}

using SpellingIndex = std::unordered_map<std::string_view, TokenId>;

// The first token of each spelling. Empty spellings are unused rows.
SpellingIndex index_spellings(const TokenizerData& data, std::vector<std::string>& warnings) {
  SpellingIndex index;
  index.reserve(data.tokens.size());
  size_t n_repeated = 0;
  std::string example;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string& spelling = data.tokens[i];
    const auto [first, is_new] = index.emplace(spelling, static_cast<TokenId>(i));
    if (!is_new && !spelling.empty() && ++n_repeated == 1) {
      example = fmt::format("'{}' is token {} and {}", printable(spelling), first->second, i);
    }
  }
  if (n_repeated > 0) {
    warnings.push_back(fmt::format("tokenizer: {} repeated token string{}; the first id of each counts ({})",
                                   n_repeated, n_repeated == 1 ? "" : "s", example));
  }
  return index;
}

Bpe::Merge resolve_merge(const SpellingIndex& index, size_t rank, std::string_view merge) {
  const size_t space = merge.find(' ');
  if (space == std::string_view::npos) {
    fail(fmt::format("merge {} is '{}', expected two tokens with a space between", rank, printable(merge)));
  }
  const auto token = [&](std::string_view spelling) {
    const auto found = index.find(spelling);
    if (found == index.end()) {
      fail(fmt::format("merge {} is '{}', but '{}' is not a token", rank, printable(merge), printable(spelling)));
    }
    return found->second;
  };
  const std::string_view left = merge.substr(0, space);
  const std::string_view right = merge.substr(space + 1);
  return {token(left), token(right), token(std::string(left).append(right))};
}

Bpe make_bpe(const TokenizerData& data, std::vector<std::string>& warnings) {
  const SpellingIndex index = index_spellings(data, warnings);
  std::array<TokenId, 256> byte_tokens{};
  for (size_t b = 0; b < byte_tokens.size(); ++b) {
    const std::string spelling = spelling_of_bytes(std::string(1, static_cast<char>(b)));
    const auto found = index.find(spelling);
    if (found == index.end()) {
      fail(fmt::format("no token for byte 0x{:02X}", b));
    }
    byte_tokens[b] = found->second;
  }
  std::vector<Bpe::Merge> merges;
  merges.reserve(data.merges.size());
  for (const std::string& merge : data.merges) {
    merges.push_back(resolve_merge(index, merges.size(), merge));
  }
  return Bpe(byte_tokens, merges);
}

}  // namespace

Tokenizer::Tokenizer(TokenizerData data)
    : data_(checked(std::move(data))),
      bytes_(token_texts(data_)),
      added_(added_tokens(data_)),
      bpe_(make_bpe(data_, warnings_)) {
  Bpe::Scratch scratch;
  std::vector<TokenId> tokens;
  whole_.reserve(bytes_.size());
  for (size_t i = 0; i < bytes_.size(); ++i) {
    tokens.clear();
    bpe_.encode(bytes_[i], scratch, tokens);
    if (tokens.size() == 1 && tokens[0] == static_cast<TokenId>(i)) {
      whole_.emplace(bytes_[i], tokens[0]);
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() >= std::numeric_limits<uint32_t>::max()) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("text of {} bytes: the tokenizer takes less than 4 GiB", text.size()));
  }
  std::vector<TokenId> tokens;
  Bpe::Scratch scratch;
  AddedTokenScanner scanner(added_, text, options);
  size_t done = 0;
  while (const auto match = scanner.next()) {
    encode_ordinary(text.substr(done, match->span.begin - done), scratch, tokens);
    tokens.push_back(match->token);
    done = match->span.end;
  }
  encode_ordinary(text.substr(done), scratch, tokens);
  return tokens;
}

void Tokenizer::encode_ordinary(std::string_view text, Bpe::Scratch& scratch, std::vector<TokenId>& out) const {
  PieceScanner scanner(text, data_.pre_tokenizer);
  for (std::string_view piece = scanner.next(); !piece.empty(); piece = scanner.next()) {
    if (const auto whole = whole_.find(piece); whole != whole_.end()) {
      out.push_back(whole->second);
    } else {
      bpe_.encode(piece, scratch, out);
    }
  }
}

void Tokenizer::check_token(TokenId token) const {
  if (token < 0 || static_cast<size_t>(token) >= size()) {
    throw Error(ErrorCode::kBadRequest, fmt::format("token id {}: the vocabulary has {} tokens", token, size()));
  }
}

std::string_view Tokenizer::token_bytes(TokenId token) const {
  check_token(token);
  return bytes_[static_cast<size_t>(token)];
}

bool Tokenizer::is_control(TokenId token) const {
  check_token(token);
  return data_.types[static_cast<size_t>(token)] == TokenType::kControl;
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool skip_control) const {
  std::string text;
  for (const TokenId token : tokens) {
    if (!skip_control || !is_control(token)) {
      text += token_bytes(token);
    }
  }
  return text;
}

std::optional<TokenId> Tokenizer::find(std::string_view literal) const {
  if (const auto added = added_.find(literal)) {
    return added;
  }
  const auto whole = whole_.find(literal);
  return whole == whole_.end() ? std::nullopt : std::optional(whole->second);
}

ChatTokens Tokenizer::require_chat_tokens() const {
  std::string missing;
  const auto require = [&](std::string_view literal) {
    const auto token = added_.find(literal);
    if (!token) {
      missing.append(missing.empty() ? "" : ", ").append(literal);
    }
    return token.value_or(-1);
  };
  const ChatTokens tokens = {require(literal::kBos),       require(literal::kEos),   require(literal::kUser),
                             require(literal::kAssistant), require(literal::kThink), require(literal::kEndThink),
                             require(literal::kDsml)};
  if (!missing.empty()) {
    fail("not a chat model's vocabulary: no " + missing);
  }
  return tokens;
}

}  // namespace fathom
