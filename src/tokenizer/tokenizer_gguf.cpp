// The tokenizer.* keys of GGUF files. tokenizer.ggml.add_bos_token is ignored: files disagree, and prompts carry their
// own BOS.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/error.h"
#include "core/printable.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "tokenizer/tokenizer_data.h"

namespace fathom {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kBosKey = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEosKey = "tokenizer.ggml.eos_token_id";
constexpr std::string_view kPadKey = "tokenizer.ggml.padding_token_id";
constexpr std::string_view kAddBosKey = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kAddEosKey = "tokenizer.ggml.add_eos_token";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

constexpr std::string_view kByteLevelBpe = "gpt2";

struct PreName {
  std::string_view name;
  PreTokenizer kind;
};

// llama.cpp and other converters name one split differently; of several names the first is written.
constexpr std::array<PreName, 4> kPreNames = {{
    {"joyai-llm", PreTokenizer::kDeepSeekV3},
    {"deepseek-v3", PreTokenizer::kDeepSeekV3},
    {"deepseek-v4", PreTokenizer::kDeepSeekV3},
    {"deepseek-v3-single-digits", PreTokenizer::kDeepSeekV3SingleDigits},
}};

[[noreturn]] void fail_unsupported(const GgufFile& file, std::string_view key, std::string_view value,
                                   std::string_view expected) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: {} is '{}', expected {}", file.path(), key, printable(value), expected));
}

PreTokenizer read_pre_tokenizer(const GgufFile& file) {
  const std::string_view name = file.at(kPreKey).to_string();
  std::string known;
  for (const PreName& pre : kPreNames) {
    if (pre.name == name) {
      return pre.kind;
    }
    known.append(known.empty() ? "" : ", ").append(pre.name);
  }
  fail_unsupported(file, kPreKey, name, "one of " + known);
}

std::string_view pre_name(PreTokenizer kind) {
  const PreName* pre = kPreNames.data();
  while (pre->kind != kind) {
    ++pre;
  }
  return pre->name;
}

std::optional<TokenId> read_token_id(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  return static_cast<TokenId>(value->to_int(0, std::numeric_limits<TokenId>::max()));
}

std::vector<std::string> read_strings(const GgufFile& file, std::string_view key) {
  const GgufValue& value = file.at(key);
  if (value.count() > kMaxTokens) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("{}: {} has {} strings, expected at most {}", file.path(), key, value.count(), kMaxTokens));
  }
  const std::vector<std::string_view> views = value.to_strings();
  return {views.begin(), views.end()};
}

}  // namespace

TokenizerData read_gguf_tokenizer(const GgufFile& file) {
  const std::string_view model = file.at(kModelKey).to_string();
  if (model != kByteLevelBpe) {
    fail_unsupported(file, kModelKey, model, kByteLevelBpe);
  }
  TokenizerData data;
  data.pre_tokenizer = read_pre_tokenizer(file);
  data.tokens = read_strings(file, kTokensKey);
  data.merges = read_strings(file, kMergesKey);
  if (const GgufValue* types = file.find(kTypesKey)) {
    for (const int64_t type : types->to_ints(0, static_cast<int64_t>(TokenType::kByte))) {
      data.types.push_back(static_cast<TokenType>(type));
    }
  }
  data.bos = read_token_id(file, kBosKey);
  data.eos = read_token_id(file, kEosKey);
  data.pad = read_token_id(file, kPadKey);
  if (const GgufValue* chat_template = file.find(kTemplateKey)) {
    data.chat_template = chat_template->to_string();
  }
  return data;
}

std::vector<GgufKv> gguf_tokenizer_metadata(const TokenizerData& data) {
  const auto strings = [](std::string_view key, const std::vector<std::string>& values) {
    return GgufKv::strings(std::string(key), std::vector<std::string_view>(values.begin(), values.end()));
  };
  std::vector<GgufKv> metadata;
  metadata.push_back(GgufKv::string(std::string(kModelKey), kByteLevelBpe));
  metadata.push_back(GgufKv::string(std::string(kPreKey), pre_name(data.pre_tokenizer)));
  metadata.push_back(strings(kTokensKey, data.tokens));
  if (!data.types.empty()) {
    std::vector<int32_t> types;
    for (const TokenType type : data.types) {
      types.push_back(static_cast<int32_t>(type));
    }
    metadata.push_back(GgufKv::i32s(std::string(kTypesKey), types));
  }
  metadata.push_back(strings(kMergesKey, data.merges));
  for (const auto& [key, id] : {std::pair{kBosKey, data.bos}, {kEosKey, data.eos}, {kPadKey, data.pad}}) {
    if (id) {
      metadata.push_back(GgufKv::u32(std::string(key), static_cast<uint32_t>(*id)));
    }
  }
  metadata.push_back(GgufKv::boolean(std::string(kAddBosKey), false));
  metadata.push_back(GgufKv::boolean(std::string(kAddEosKey), false));
  if (!data.chat_template.empty()) {
    metadata.push_back(GgufKv::string(std::string(kTemplateKey), data.chat_template));
  }
  return metadata;
}

}  // namespace fathom
