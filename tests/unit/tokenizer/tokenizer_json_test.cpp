#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/prompt_text.h"
#include "support/expect_error.h"
#include "support/read_file.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

using Json = nlohmann::json;

// The bundled tokenizer.json, cut down to its form and three tokens.
Json small_json() {
  Json json = Json::parse(test::read_file(FATHOM_TEST_DATA_DIR "/tokenizer/bundled.json"));
  json["model"]["vocab"] = {{"a", 1}, {"b", 2}, {"ab", 5}};
  json["model"]["merges"] = {"a b"};
  json["added_tokens"] = {{{"id", 0}, {"content", literal::kBos}, {"special", true}},
                          {{"id", 3}, {"content", literal::kThink}, {"special", false}, {"lstrip", false}}};
  return json;
}

TokenizerData parse(const Json& json) { return parse_tokenizer_json(json.dump()); }

// Parses small_json() with `value` at `path`; a null path member ("-") is appended.
TokenizerData parse_with(const char* path, const Json& value) {
  Json json = small_json();
  json[Json::json_pointer(path)] = value;
  return parse(json);
}

TokenizerData parse_without(const char* parent, const char* key) {
  Json json = small_json();
  json[Json::json_pointer(parent)].erase(key);
  return parse(json);
}

TEST(TokenizerJson, ReadsTokensTypesMergesAndSpecialIds) {
  const TokenizerData data = parse(small_json());
  EXPECT_EQ(data.tokens, (std::vector<std::string>{std::string(literal::kBos), "a", "b", "<think>", "", "ab"}));
  EXPECT_EQ(data.types, (std::vector<TokenType>{TokenType::kControl, TokenType::kNormal, TokenType::kNormal,
                                                TokenType::kUserDefined, TokenType::kUnused, TokenType::kNormal}));
  EXPECT_EQ(data.merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(data.bos, 0);
  EXPECT_EQ(data.eos, std::nullopt);
  EXPECT_EQ(data.pad, std::nullopt);
  EXPECT_EQ(data.pre_tokenizer, PreTokenizer::kDeepSeekV3);
}

TEST(TokenizerJson, ReadsTheBundledFile) {
  const TokenizerData data = test::bundled_tokenizer_data();
  EXPECT_EQ(data.tokens.size(), 4096U);
  EXPECT_EQ(data.merges.size(), 3825U);
  EXPECT_EQ(data.bos, 0);
  EXPECT_EQ(data.eos, 1);
  EXPECT_EQ(data.pad, 2);
}

TEST(TokenizerJson, TakesMergesAsPairsOrStrings) {
  EXPECT_EQ(parse_with("/model/merges", Json::array({Json::array({"a", "b"})})).merges,
            (std::vector<std::string>{"a b"}));
}

TEST(TokenizerJson, TakesThePreTokenizersVariant) {
  const char* number_split = "/pre_tokenizer/pretokenizers/0/pattern/Regex";
  EXPECT_EQ(parse_with(number_split, "\\p{N}").pre_tokenizer, PreTokenizer::kDeepSeekV3SingleDigits);
  EXPECT_ERROR(parse_with(number_split, "\\p{N}{1,2}"), ErrorCode::kUnsupported, "not DeepSeek's");
  EXPECT_ERROR(parse_with("/pre_tokenizer/pretokenizers/2/pattern/Regex", "\\s+"), ErrorCode::kUnsupported,
               "not DeepSeek's");
}

TEST(TokenizerJson, TakesEitherEscapingOfTheExpressions) {
  const char* path = "/pre_tokenizer/pretokenizers/2/pattern/Regex";
  std::string regex = small_json()[Json::json_pointer(path)];
  for (const auto& [escaped, plain] : {std::pair{"\\r", "\r"}, {"\\n", "\n"}, {"\\\"", "\""}}) {
    for (size_t at = regex.find(escaped); at != std::string::npos; at = regex.find(escaped)) {
      regex.replace(at, 2, plain);
    }
  }
  EXPECT_EQ(parse_with(path, regex).pre_tokenizer, PreTokenizer::kDeepSeekV3);
}

TEST(TokenizerJson, RejectsOtherPreTokenizers) {
  const std::string steps = "/pre_tokenizer/pretokenizers";
  EXPECT_ERROR(parse_with(steps.c_str(), Json::array()), ErrorCode::kUnsupported, "has 0 steps, expected 4");
  EXPECT_ERROR(parse_with((steps + "/1/behavior").c_str(), "Removed"), ErrorCode::kUnsupported,
               "pre_tokenizer step 1 is not a Split with behavior Isolated");
  EXPECT_ERROR(parse_with((steps + "/0/invert").c_str(), true), ErrorCode::kUnsupported,
               "pre_tokenizer step 0.invert is set");
  EXPECT_ERROR(parse_with((steps + "/3/type").c_str(), "Digits"), ErrorCode::kUnsupported, "step 3 is not ByteLevel");
  EXPECT_ERROR(parse_with((steps + "/3/use_regex").c_str(), true), ErrorCode::kUnsupported, "step 3.use_regex is set");
  EXPECT_ERROR(parse_with((steps + "/3/add_prefix_space").c_str(), true), ErrorCode::kUnsupported,
               "add_prefix_space is set");
  EXPECT_ERROR(parse_with((steps + "/0/pattern").c_str(), "x"), ErrorCode::kBadModel,
               "no pre_tokenizer step 0.pattern.Regex");
}

TEST(TokenizerJson, RejectsOtherKindsOfModel) {
  EXPECT_ERROR(parse_with("/model/type", "Unigram"), ErrorCode::kUnsupported, "model.type is not BPE");
  EXPECT_ERROR(parse_with("/model/ignore_merges", true), ErrorCode::kUnsupported, "model.ignore_merges is set");
  EXPECT_ERROR(parse_with("/model/byte_fallback", true), ErrorCode::kUnsupported, "model.byte_fallback is set");
  EXPECT_ERROR(parse_with("/model/dropout", 0.5), ErrorCode::kUnsupported, "model.dropout is set");
  EXPECT_ERROR(parse_with("/model/unk_token", "<unk>"), ErrorCode::kUnsupported, "model.unk_token is set");
  EXPECT_ERROR(parse_with("/normalizer", Json({{"normalizers", {{{"type", "NFC"}}}}})), ErrorCode::kUnsupported,
               "normalizer is set");
  EXPECT_ERROR(parse_with("/normalizer", Json({{"type", "NFC"}})), ErrorCode::kBadModel, "no normalizer.normalizers");
  EXPECT_ERROR(parse_with("/added_tokens/1/lstrip", true), ErrorCode::kUnsupported, "added_tokens[1].lstrip is set");
  EXPECT_EQ(parse_with("/normalizer", Json({{"normalizers", Json::array()}})).tokens.size(), 6U);
}

TEST(TokenizerJson, NamesWhatIsMissing) {
  EXPECT_ERROR(parse_without("", "model"), ErrorCode::kBadModel, "no root.model");
  EXPECT_ERROR(parse_without("", "added_tokens"), ErrorCode::kBadModel, "no root.added_tokens");
  EXPECT_ERROR(parse_without("/model", "vocab"), ErrorCode::kBadModel, "no model.vocab");
  EXPECT_ERROR(parse_without("/model", "merges"), ErrorCode::kBadModel, "no model.merges");
  EXPECT_ERROR(parse_without("/added_tokens/1", "content"), ErrorCode::kBadModel, "no added_tokens[1].content");
}

TEST(TokenizerJson, NamesWhatHasTheWrongType) {
  EXPECT_ERROR(parse_with("/model/vocab", 1), ErrorCode::kBadModel, "model.vocab is of type number, expected object");
  EXPECT_ERROR(parse_with("/model/vocab/a", "1"), ErrorCode::kBadModel,
               "an id in model.vocab is of type string, expected integer");
  EXPECT_ERROR(parse_with("/model/merges/0", 7), ErrorCode::kBadModel,
               "model.merges[0] is of type number, expected string");
  EXPECT_ERROR(parse_with("/model/merges/0", Json::array({"a", 7})), ErrorCode::kBadModel, "model.merges[0]");
  EXPECT_ERROR(parse_with("/model/merges/0", Json::array({"a", "b", "c"})), ErrorCode::kBadModel, "of type array");
  EXPECT_ERROR(parse_with("/added_tokens", Json::object()), ErrorCode::kBadModel, "of type object, expected array");
}

TEST(TokenizerJson, RejectsImpossibleIds) {
  EXPECT_ERROR(parse_with("/model/vocab/a", -1), ErrorCode::kBadModel, "is -1, expected 0 to 1048575");
  EXPECT_ERROR(parse_with("/model/vocab/a", 1 << 20), ErrorCode::kBadModel, "is 1048576, expected 0 to 1048575");
  EXPECT_ERROR(parse_with("/model/vocab/a", UINT64_MAX), ErrorCode::kBadModel, "expected 0 to 1048575");
  EXPECT_ERROR(parse_with("/model/vocab/b", 1), ErrorCode::kBadModel, "token id 1 has two strings");
  EXPECT_ERROR(parse_with("/added_tokens/1/id", 2), ErrorCode::kBadModel, "token id 2 has two strings");
}

TEST(TokenizerJson, RejectsWhatIsNotJson) {
  EXPECT_ERROR((void)parse_tokenizer_json(""), ErrorCode::kBadModel, "tokenizer.json: not valid JSON");
  EXPECT_ERROR((void)parse_tokenizer_json("[]"), ErrorCode::kBadModel, "no root.model");
  EXPECT_ERROR((void)parse_tokenizer_json("{\"model\":"), ErrorCode::kBadModel, "not valid JSON");
  EXPECT_ERROR((void)parse_tokenizer_json("{\"model\": 1e999}"), ErrorCode::kBadModel, "number overflow");
  EXPECT_ERROR((void)parse_tokenizer_json("{\"model\": 1, \"model\": 2}"), ErrorCode::kBadModel, "model occurs twice");
  EXPECT_ERROR((void)parse_tokenizer_json("\"\xFF\""), ErrorCode::kBadModel, "ill-formed UTF-8");
}

TEST(TokenizerJson, RejectsDeepNesting) {
  const std::string open(1'000'000, '[');
  EXPECT_ERROR((void)parse_tokenizer_json(open), ErrorCode::kBadModel, "nested deeper than 64");
  EXPECT_ERROR(parse_with("/normalizer", Json::array({Json::parse(std::string(64, '[') + std::string(64, ']'))})),
               ErrorCode::kBadModel, "nested deeper than 64");
}

TEST(TokenizerJson, SurvivesEveryTruncation) {
  const std::string text = small_json().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_ERROR((void)parse_tokenizer_json(std::string_view(text).substr(0, size)), ErrorCode::kBadModel,
                 "not valid JSON");
  }
}

}  // namespace
}  // namespace fathom
