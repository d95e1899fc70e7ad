// Any bytes as a grammar, the first of them says of which kind: an error or a grammar whose masks can be followed.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/regex.h"
#include "grammar/token_grammar.h"
#include "grammar/tool_calls.h"

namespace {

using fathom::TokenId;

// Every byte, and some longer tokens.
std::shared_ptr<const fathom::GrammarVocabulary> small_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) {
      bytes.emplace_back(1, static_cast<char>(b));
    }
    for (const char* text : {"\", \"", "\": ", "\"}", "{\"", "[[", "]]", "],", "aa", "ab", "0.", "12", "\\\"", "\\u00",
                             "\n  ", "true", "null", "\xc3\xa9\xc3", "</", ">\n"}) {
      bytes.emplace_back(text);
    }
    bytes.emplace_back();
    const auto dsml = static_cast<TokenId>(bytes.size() - 1);
    return std::make_shared<const fathom::GrammarVocabulary>(
        std::move(bytes), std::unordered_map<std::string, TokenId>{{"\uFF5CDSML\uFF5C", dsml}});
  }();
  return vocabulary;
}

fathom::Grammar parse(uint8_t kind, std::string_view text) {
  switch (kind % 4) {
    case 0:
      return fathom::json_schema_grammar(text);
    case 1:
      return fathom::regex_grammar(text);
    case 2:
      return fathom::parse_gbnf(text);
    default:
      return fathom::tool_calls_grammar({{"f", std::string(text)}}, {});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    const fathom::TokenGrammar grammar(parse(data[0], text), small_vocabulary());
    fathom::Matcher matcher = grammar.begin();
    std::vector<uint64_t> mask;
    uint32_t random = data[1] + 1U;
    for (int i = 0; i < 50; ++i) {
      grammar.fill_mask(matcher, mask);
      std::vector<TokenId> allowed;
      for (size_t token = 0; token < grammar.vocab(); ++token) {
        if ((mask[token / 64] >> (token % 64) & 1U) != 0) {
          allowed.push_back(static_cast<TokenId>(token));
        }
      }
      if (allowed.empty()) {
        FATHOM_CHECK(matcher.complete(), "a text can always go on or end");
        break;
      }
      random = random * 1664525U + 1013904223U;
      const bool fits = grammar.accept(matcher, allowed[(random >> 8) % allowed.size()]);
      FATHOM_CHECK(fits, "what the mask allows is accepted");
    }
  } catch (const fathom::Error& error) {
    FATHOM_CHECK(error.code() == fathom::ErrorCode::kBadRequest, "it is the text that is wrong");
  }
  return 0;
}
