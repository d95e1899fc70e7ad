#include <gtest/gtest.h>

#include <algorithm>

#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

using Metadata = std::vector<GgufKv>;

Metadata bundled_metadata() { return gguf_tokenizer_metadata(test::bundled_tokenizer_data()); }

// Reads a file that holds just these keys.
TokenizerData read(const Metadata& metadata) {
  const test::TempDir dir;
  const std::string path = dir.file("tokenizer.gguf");
  GgufWriter(path, metadata, {}).finish();
  return read_gguf_tokenizer(GgufFile::open(path));
}

// Drops the value's key, then adds the value.
TokenizerData read_with(GgufKv value) {
  Metadata metadata = bundled_metadata();
  std::erase_if(metadata, [&](const GgufKv& kv) { return kv.key == value.key; });
  metadata.push_back(std::move(value));
  return read(metadata);
}

TokenizerData read_without(std::string_view key) {
  Metadata metadata = bundled_metadata();
  EXPECT_EQ(std::erase_if(metadata, [&](const GgufKv& kv) { return kv.key == key; }), 1U);
  return read(metadata);
}

TEST(TokenizerGguf, GivesBackWhatWasWritten) {
  TokenizerData written = test::bundled_tokenizer_data();
  written.chat_template = "{{ messages }}";
  for (const auto kind : {PreTokenizer::kDeepSeekV3, PreTokenizer::kDeepSeekV3SingleDigits}) {
    written.pre_tokenizer = kind;
    const TokenizerData data = read(gguf_tokenizer_metadata(written));
    EXPECT_EQ(data.tokens, written.tokens);
    EXPECT_EQ(data.types, written.types);
    EXPECT_EQ(data.merges, written.merges);
    EXPECT_EQ(data.pre_tokenizer, written.pre_tokenizer);
    EXPECT_EQ(data.bos, written.bos);
    EXPECT_EQ(data.eos, written.eos);
    EXPECT_EQ(data.pad, written.pad);
    EXPECT_EQ(data.chat_template, written.chat_template);
  }
}

TEST(TokenizerGguf, MakesATokenizer) {
  const test::TempDir dir;
  const std::string path = dir.file("tokenizer.gguf");
  GgufWriter(path, bundled_metadata(), {}).finish();
  const Tokenizer tokenizer = Tokenizer::from_gguf(GgufFile::open(path));
  const Tokenizer original(test::bundled_tokenizer_data());
  const std::string text = "<think>Once upon a time, 123!</think>";
  EXPECT_EQ(tokenizer.encode(text), original.encode(text));
}

TEST(TokenizerGguf, KnowsEveryNameOfTheSplit) {
  for (const char* name : {"joyai-llm", "deepseek-v3", "deepseek-v4"}) {
    EXPECT_EQ(read_with(GgufKv::string("tokenizer.ggml.pre", name)).pre_tokenizer, PreTokenizer::kDeepSeekV3);
  }
  EXPECT_ERROR(read_with(GgufKv::string("tokenizer.ggml.pre", "llama-bpe")), ErrorCode::kUnsupported,
               "tokenizer.ggml.pre is 'llama-bpe', expected one of joyai-llm, deepseek-v3, deepseek-v4");
}

TEST(TokenizerGguf, RejectsOtherKindsOfTokenizer) {
  EXPECT_ERROR(read_with(GgufKv::string("tokenizer.ggml.model", "llama")), ErrorCode::kUnsupported,
               "tokenizer.gguf: tokenizer.ggml.model is 'llama', expected gpt2");
}

TEST(TokenizerGguf, NeedsWhatDefinesTheTokenizer) {
  for (const char* key :
       {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    EXPECT_ERROR(read_without(key), ErrorCode::kBadModel, key);
  }
}

TEST(TokenizerGguf, DoesWithoutTheRest) {
  EXPECT_TRUE(read_without("tokenizer.ggml.token_type").types.empty());
  EXPECT_EQ(read_without("tokenizer.ggml.bos_token_id").bos, std::nullopt);
  EXPECT_EQ(read_without("tokenizer.ggml.add_bos_token").bos, 0);
}

TEST(TokenizerGguf, RejectsValuesOfTheWrongType) {
  EXPECT_ERROR(read_with(GgufKv::u32("tokenizer.ggml.tokens", 1)), ErrorCode::kBadModel, "tokenizer.ggml.tokens");
  EXPECT_ERROR(read_with(GgufKv::i32s("tokenizer.ggml.token_type", std::vector<int32_t>{7})), ErrorCode::kBadModel,
               "tokenizer.ggml.token_type");
  const std::vector<std::string_view> many(kMaxTokens + 1);
  EXPECT_ERROR(read_with(GgufKv::strings("tokenizer.ggml.merges", many)), ErrorCode::kBadModel,
               "tokenizer.ggml.merges has 1048577 strings, expected at most 1048576");
  EXPECT_ERROR(read_with(GgufKv::i32("tokenizer.ggml.eos_token_id", -1)), ErrorCode::kBadModel,
               "tokenizer.ggml.eos_token_id");
}

}  // namespace
}  // namespace fathom
