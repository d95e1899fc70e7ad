#include "cli/text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "gguf/gguf_file.h"

namespace fathom::cli {
namespace {

Tokenizer read_tokenizer(const WeightSource& source) {
  if (const GgufFile* file = source.gguf()) {
    return Tokenizer::from_gguf(*file);
  }
  if (source.tokenizer_json().empty()) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: no tokenizer.json beside the weights", source.path()));
  }
  return Tokenizer::from_json(source.tokenizer_json());
}

std::string_view text_key(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  return value == nullptr ? std::string_view{} : value->to_string();
}

}  // namespace

Tokenizer load_tokenizer(const WeightSource& source) {
  Tokenizer tokenizer = [&] {
    try {
      return read_tokenizer(source);
    } catch (const Error& error) {
      const std::string_view text = error.what();
      if (text.starts_with(source.path())) {
        throw;
      }
      throw Error(error.code(), fmt::format("{}: {}", source.path(), text));
    }
  }();
  for (const std::string& warning : tokenizer.warnings()) {
    log_warn(fmt::format("{}: {}", source.path(), warning));
  }
  return tokenizer;
}

ChatDialect chat_dialect(const WeightSource& source) {
  if (const GgufFile* file = source.gguf()) {
    return detect_dialect({.dialect = text_key(*file, kDialectKey),
                           .chat_template = text_key(*file, "tokenizer.chat_template"),
                           .name = text_key(*file, "general.name"),
                           .base_version = text_key(*file, "general.base_model.0.version")});
  }
  const std::string name = std::filesystem::weakly_canonical(source.path()).filename().string();
  return detect_dialect({.name = name});
}

bool has_chat_tokens(const Tokenizer& tokenizer) {
  static constexpr std::array kNeeded{literal::kBos,       literal::kEos,   literal::kUser,
                                      literal::kAssistant, literal::kThink, literal::kEndThink};
  return std::all_of(kNeeded.begin(), kNeeded.end(),
                     [&](std::string_view token) { return tokenizer.find(token).has_value(); });
}

}  // namespace fathom::cli
