// Text <-> token ids: byte-level BPE after DeepSeek's pre-tokenizer, with added tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer_data.h"

namespace fathom {

// The tokens without which no chat prompt can be written.
struct ChatTokens {
  TokenId bos, eos, user, assistant, think, end_think, dsml;
};

// Immutable after construction: any number of threads may use one.
class Tokenizer {
 public:
  // Throws Error(kBadModel) when the data contradicts itself.
  explicit Tokenizer(TokenizerData data);
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;
  [[nodiscard]] static Tokenizer from_json(std::string_view json) { return Tokenizer(parse_tokenizer_json(json)); }
  [[nodiscard]] static Tokenizer from_gguf(const GgufFile& file) { return Tokenizer(read_gguf_tokenizer(file)); }

  // Adds no BOS. Any bytes can be encoded, and decoding gives them back; text that is to match the reference is valid
  // UTF-8. Throws Error(kBadRequest) for 4 GiB and more.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of tokens; a character may be cut at either end (Utf8Stream). Throws Error(kBadRequest) for an id outside
  // the vocabulary.
  [[nodiscard]] std::string_view token_bytes(TokenId token) const;
  [[nodiscard]] std::string decode(std::span<const TokenId> tokens, bool skip_control = false) const;

  // The token of an added literal, or the one token that encodes this text.
  [[nodiscard]] std::optional<TokenId> find(std::string_view literal) const;

  // Structure of a prompt: not to be shown to a reader. Throws as token_bytes does.
  [[nodiscard]] bool is_control(TokenId token) const;

  // Rows of the vocabulary, unused ones included.
  [[nodiscard]] size_t size() const noexcept { return data_.tokens.size(); }
  [[nodiscard]] std::optional<TokenId> bos() const noexcept { return data_.bos; }
  [[nodiscard]] std::optional<TokenId> eos() const noexcept { return data_.eos; }
  // Throws Error(kBadModel) that names every missing one.
  [[nodiscard]] ChatTokens require_chat_tokens() const;

  // What it was made from. Types are corrected: files disagree about those of added tokens.
  [[nodiscard]] const TokenizerData& data() const noexcept { return data_; }
  // Damage that could be worked around, one line each.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  void encode_ordinary(std::string_view text, Bpe::Scratch& scratch, std::vector<TokenId>& out) const;
  void check_token(TokenId token) const;

  std::vector<std::string> warnings_;
  TokenizerData data_;
  std::vector<std::string> bytes_;  // by id
  AddedTokens added_;
  Bpe bpe_;
  std::unordered_map<std::string_view, TokenId> whole_;  // texts that BPE makes one token of; views of bytes_
};

}  // namespace fathom
