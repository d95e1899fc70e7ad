// A tokenizer as model files describe it: plain data, read from tokenizer.json or GGUF metadata, written by `convert`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "tokenizer/pre_tokenizer.h"

namespace fathom {

class GgufFile;
struct GgufKv;

// Values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // added: structure of a prompt, not text
  kUserDefined = 4,  // added: an atomic piece of text
  kUnused = 5,
  kByte = 6,
};

// Far above any real vocabulary; keeps one hostile id from taking all memory.
inline constexpr size_t kMaxTokens = size_t{1} << 20;
// Of an added token. They are looked for at every position of a text, over the whole length in the worst case.
inline constexpr size_t kMaxAddedTokenBytes = 128;

struct TokenizerData {
  std::vector<std::string> tokens;  // by id; added tokens are literal, the others in the byte alphabet
  std::vector<TokenType> types;     // by id
  std::vector<std::string> merges;  // by rank: "left right"
  PreTokenizer pre_tokenizer = PreTokenizer::kDeepSeekV3;
  std::optional<TokenId> bos, eos, pad;
  std::string chat_template;  // somebody's Jinja text: for detecting the dialect only
};

// Both throw Error: kBadModel when the input contradicts the format, kUnsupported when it describes another kind of
// tokenizer. Whether the parts fit together is checked by Tokenizer.
[[nodiscard]] TokenizerData parse_tokenizer_json(std::string_view json);
[[nodiscard]] TokenizerData read_gguf_tokenizer(const GgufFile& file);

// The tokenizer.* keys that read_gguf_tokenizer reads.
[[nodiscard]] std::vector<GgufKv> gguf_tokenizer_metadata(const TokenizerData& data);

}  // namespace fathom
