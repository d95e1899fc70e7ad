#include "cli/tokenize.h"

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/model_options.h"
#include "cli/text_io.h"
#include "cli/text_model.h"
#include "cli/token_ids.h"
#include "core/utf8.h"

namespace fathom::cli {
namespace {

Tokenizer open_tokenizer(const std::string& model) { return load_tokenizer(*WeightSource::open(model_path(model))); }

// On one line, with invisible and partial characters spelled out.
std::string quote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Utf8Char character = decode_utf8(text);
    const std::string_view bytes = text.substr(0, character.size);
    if (bytes == "\"" || bytes == "\\") {
      quoted += fmt::format("\\{}", bytes);
    } else if (bytes == "\n") {
      quoted += "\\n";
    } else if (character.status == Utf8Char::Status::kValid && character.value >= 0x20 && character.value != 0x7f) {
      quoted += bytes;
    } else {
      for (const char byte : bytes) {
        quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(character.size);
  }
  return quoted += '"';
}

}  // namespace

int tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = open_tokenizer(options.model);
  const EncodeOptions encode{.added_tokens =
                                 options.no_special ? AddedTokenPolicy::kNowhere : AddedTokenPolicy::kEverywhere};
  const std::vector<TokenId> ids = tokenizer.encode(replace_invalid_utf8(read_text("-")), encode);
  if (options.ids_only) {
    write_stdout(format_token_ids(ids) + "\n");
    return kExitOk;
  }
  std::string lines;
  for (const TokenId id : ids) {
    lines += fmt::format("{:>6} {}\n", id, quote(tokenizer.token_bytes(id)));
  }
  write_stdout(lines);
  return kExitOk;
}

int detokenize(const DetokenizeOptions& options) {
  const Tokenizer tokenizer = open_tokenizer(options.model);
  const std::vector<TokenId> ids =
      parse_token_ids(read_text("-"), static_cast<int>(tokenizer.size()), "standard input");
  write_stdout(tokenizer.decode(ids));
  return kExitOk;
}

}  // namespace fathom::cli
