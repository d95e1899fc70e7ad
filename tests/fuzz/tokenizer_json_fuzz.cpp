// Any bytes as tokenizer.json: an Error, or a tokenizer that encodes and decodes.
#include <cstdint>
#include <string>

#include "core/check.h"
#include "core/error.h"
#include "tokenizer/tokenizer.h"

namespace {

constexpr char kText[] = "Hi  there,\n\n123 don't\t\xE4\xB8\xAD<think>\xFF\0";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const fathom::Tokenizer tokenizer = fathom::Tokenizer::from_json(json);
    std::string text(kText, sizeof(kText));
    text += json.substr(0, 1000);
    FATHOM_CHECK(tokenizer.decode(tokenizer.encode(text)) == text, "decoding gives the text back");
  } catch (const fathom::Error&) {
  }
  return 0;
}
