#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "core/utf8.h"
#include "support/expect_error.h"
#include "support/read_file.h"
#include "support/test_tokenizers.h"
#include "tokenizer/byte_alphabet.h"

namespace fathom {
namespace {

using Tokens = std::vector<TokenId>;

const Tokenizer& bundled() {
  static const Tokenizer tokenizer(test::bundled_tokenizer_data());
  return tokenizer;
}

// Byte tokens as ids 0 to 255, nothing else.
TokenizerData byte_data() {
  TokenizerData data;
  for (int b = 0; b < 256; ++b) {
    data.tokens.push_back(spelling_of_bytes(std::string(1, static_cast<char>(b))));
  }
  data.types.assign(data.tokens.size(), TokenType::kNormal);
  return data;
}

TokenId add_token(TokenizerData& data, std::string_view spelling, TokenType type = TokenType::kNormal) {
  data.tokens.emplace_back(spelling);
  data.types.push_back(type);
  return static_cast<TokenId>(data.tokens.size() - 1);
}

TEST(Tokenizer, AgreesWithTheReference) {
  std::istringstream lines(test::read_file(FATHOM_TEST_DATA_DIR "/tokenizer/reference_ids.jsonl"));
  int n_checked = 0;
  for (std::string line; std::getline(lines, line); ++n_checked) {
    const auto c = nlohmann::json::parse(line);
    EXPECT_EQ(bundled().encode(c.at("text").get<std::string>()), c.at("ids").get<Tokens>()) << c.at("text");
  }
  EXPECT_EQ(n_checked, 400);
}

TEST(Tokenizer, DecodesAnyBytesToThemselves) {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string text(random() % 64, '\0');
    std::ranges::generate(text, [&] { return static_cast<char>(random() % (i % 2 == 0 ? 256 : 128)); });
    for (const auto policy : {AddedTokenPolicy::kEverywhere, AddedTokenPolicy::kNowhere}) {
      ASSERT_EQ(bundled().decode(bundled().encode(text, {.added_tokens = policy})), text);
    }
  }
}

TEST(Tokenizer, DecodesTokensThatEndInsideACharacter) {
  const std::string text = "\U0001F600";
  const Tokens tokens = bundled().encode(text);
  ASSERT_GT(tokens.size(), 1U);
  Utf8Stream stream;
  std::string streamed;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string part = stream.push(bundled().token_bytes(tokens[i]));
    EXPECT_EQ(part.empty(), i + 1 < tokens.size());
    streamed += part;
  }
  EXPECT_EQ(streamed, text);
}

TEST(Tokenizer, KeepsNul) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(bundled().decode(bundled().encode(text)), text);
}

TEST(Tokenizer, AddedTokensFollowTheOptions) {
  const std::string text = "Hi" + std::string(literal::kUser) + "<think>";
  const TokenId user = bundled().find(literal::kUser).value();
  const TokenId think = bundled().find(literal::kThink).value();
  const auto has = [](const Tokens& tokens, TokenId token) { return std::ranges::count(tokens, token) == 1; };

  const Tokens everywhere = bundled().encode(text);
  EXPECT_TRUE(has(everywhere, user) && has(everywhere, think));
  const Tokens nowhere = bundled().encode(text, {.added_tokens = AddedTokenPolicy::kNowhere});
  EXPECT_TRUE(!has(nowhere, user) && !has(nowhere, think));
  const Tokens untrusted = bundled().encode(text, {.added_tokens = AddedTokenPolicy::kTrusted});
  EXPECT_TRUE(!has(untrusted, user) && has(untrusted, think));
  for (const Tokens& tokens : {everywhere, nowhere, untrusted}) {
    EXPECT_EQ(bundled().decode(tokens), text);
  }
}

TEST(Tokenizer, DecodesWithoutControlTokensOnRequest) {
  const std::string text = std::string(literal::kBos) + "Hi<think>" + std::string(literal::kEos);
  EXPECT_EQ(bundled().decode(bundled().encode(text), true), "Hi<think>");
}

TEST(Tokenizer, FindsAddedAndOrdinaryTokens) {
  EXPECT_EQ(bundled().find(literal::kBos), 0);
  const auto hello = bundled().find("Hello");
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(bundled().encode("Hello"), Tokens{*hello});
  EXPECT_EQ(bundled().find("Hello world"), std::nullopt);
  EXPECT_EQ(bundled().find(""), std::nullopt);
}

TEST(Tokenizer, KnowsSizeAndSpecialIds) {
  EXPECT_EQ(bundled().size(), 4096U);
  EXPECT_EQ(bundled().bos(), 0);
  EXPECT_EQ(bundled().eos(), 1);
  EXPECT_TRUE(bundled().warnings().empty());
}

TEST(Tokenizer, GivesTheChatTokens) {
  const ChatTokens tokens = bundled().require_chat_tokens();
  EXPECT_EQ(tokens.bos, 0);
  EXPECT_EQ(tokens.eos, 1);
  EXPECT_EQ(bundled().token_bytes(tokens.user), literal::kUser);
  EXPECT_EQ(bundled().token_bytes(tokens.assistant), literal::kAssistant);
  EXPECT_EQ(bundled().token_bytes(tokens.think), literal::kThink);
  EXPECT_EQ(bundled().token_bytes(tokens.end_think), literal::kEndThink);
  EXPECT_EQ(bundled().token_bytes(tokens.dsml), literal::kDsml);
}

TEST(Tokenizer, NamesMissingChatTokens) {
  TokenizerData data = byte_data();
  for (const auto literal : {literal::kBos, literal::kEos, literal::kUser, literal::kThink, literal::kDsml}) {
    add_token(data, literal, TokenType::kControl);
  }
  EXPECT_ERROR((void)Tokenizer(data).require_chat_tokens(), ErrorCode::kBadModel,
               "no " + std::string(literal::kAssistant) + ", </think>");
}

TEST(Tokenizer, RejectsIdsOutsideTheVocabulary) {
  EXPECT_ERROR((void)bundled().token_bytes(-1), ErrorCode::kBadRequest, "token id -1: the vocabulary has 4096 tokens");
  EXPECT_ERROR((void)bundled().is_control(4096), ErrorCode::kBadRequest, "token id 4096");
  EXPECT_ERROR((void)bundled().decode(Tokens{5, 4096}), ErrorCode::kBadRequest, "token id 4096");
}

TEST(Tokenizer, RejectsTextOf4GiB) {
  const char byte = 'x';
  EXPECT_ERROR((void)bundled().encode({&byte, size_t{1} << 32}), ErrorCode::kBadRequest,
               "text of 4294967296 bytes: the tokenizer takes less than 4 GiB");
}

TEST(Tokenizer, IgnoresATokenThatMergesDoNotReach) {
  TokenizerData data = byte_data();
  add_token(data, "ab");
  EXPECT_EQ(Tokenizer(data).encode("ab"), (Tokens{'a', 'b'}));
  data.merges = {"a b"};
  EXPECT_EQ(Tokenizer(data).encode("ab"), Tokens{256});
}

TEST(Tokenizer, SplitsDigitsAsTheDataSays) {
  TokenizerData data = byte_data();
  add_token(data, "12");
  data.merges = {"1 2"};
  EXPECT_EQ(Tokenizer(data).encode("12"), Tokens{256});
  data.pre_tokenizer = PreTokenizer::kDeepSeekV3SingleDigits;
  EXPECT_EQ(Tokenizer(data).encode("12"), (Tokens{'1', '2'}));
}

TEST(Tokenizer, SpellingDecidesTheTypeOfAddedTokens) {
  TokenizerData data = byte_data();
  const TokenId user = add_token(data, literal::kUser, TokenType::kUserDefined);
  const TokenId think = add_token(data, literal::kThink, TokenType::kControl);
  const TokenId other = add_token(data, "<|EOT|>", TokenType::kControl);
  data.types[static_cast<size_t>(think)] = TokenType::kNormal;
  const Tokenizer tokenizer(data);
  EXPECT_TRUE(tokenizer.is_control(user));
  EXPECT_FALSE(tokenizer.is_control(think));
  EXPECT_TRUE(tokenizer.is_control(other));
  EXPECT_FALSE(tokenizer.is_control('a'));
  EXPECT_EQ(tokenizer.encode("<think><|EOT|>"), (Tokens{think, other}));
  EXPECT_EQ(tokenizer.data().types[static_cast<size_t>(user)], TokenType::kControl);

  data.types.clear();
  EXPECT_TRUE(Tokenizer(data).is_control(user));
  EXPECT_EQ(Tokenizer(data).encode("<think>"), Tokens{think});
}

TEST(Tokenizer, KeepsTheFirstOfRepeatedTokensAndSaysSo) {
  TokenizerData data = byte_data();
  add_token(data, "ab");
  add_token(data, "ab");
  add_token(data, "a");
  add_token(data, "");
  add_token(data, "");
  data.merges = {"a b"};
  const Tokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.encode("ab"), Tokens{256});
  EXPECT_EQ(tokenizer.token_bytes(257), "ab");
  EXPECT_EQ(tokenizer.token_bytes(259), "");
  ASSERT_EQ(tokenizer.warnings().size(), 1U);
  EXPECT_EQ(tokenizer.warnings()[0],
            "tokenizer: 2 repeated token strings; the first id of each counts ('ab' is token 256 and 257)");
}

TEST(Tokenizer, TakesSpellingsOutsideTheAlphabetLiterally) {
  TokenizerData data = byte_data();
  const TokenId token = add_token(data, "a b\uFF5C");
  EXPECT_EQ(Tokenizer(data).token_bytes(token), "a b\uFF5C");
}

TEST(Tokenizer, NamesAMergeOfUnknownTokens) {
  TokenizerData data = byte_data();
  data.merges = {"a b"};
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "merge 0 is 'a b', but 'ab' is not a token");
  add_token(data, "ab");
  data.merges = {"a b", "ab xy"};
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "merge 1 is 'ab xy', but 'xy' is not a token");
  data.merges = {"ab"};
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "merge 0 is 'ab', expected two tokens with a space between");
  data.merges = {"a\n" + std::string(1000, 'x') + " b"};
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "merge 0 is 'a\\x0a" + std::string(94, 'x') + "...'");
}

TEST(Tokenizer, NamesAMissingByteToken) {
  TokenizerData data = byte_data();
  data.tokens[0x20] = "zz";
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "no token for byte 0x20");
  EXPECT_ERROR(Tokenizer{TokenizerData{}}, ErrorCode::kBadModel, "for byte 0x00");
}

TEST(Tokenizer, RejectsMoreTokensThanAnyModelHas) {
  TokenizerData data = byte_data();
  data.tokens.resize(kMaxTokens + 1);
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "1048577 tokens, expected at most 1048576");
}

TEST(Tokenizer, RejectsAddedTokensThatSlowTheSearchDown) {
  TokenizerData data = byte_data();
  data.tokens.emplace_back(kMaxAddedTokenBytes, 'a');
  data.types.push_back(TokenType::kUserDefined);
  EXPECT_EQ(Tokenizer{data}.encode(data.tokens.back()).size(), 1U);
  data.tokens.back() += 'b';
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "aaa...') has 129 bytes, expected at most 128");
}

TEST(Tokenizer, RejectsTypesAndIdsThatDoNotFitTheTokens) {
  TokenizerData data = byte_data();
  data.types.pop_back();
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "255 token types for 256 tokens");
  data = byte_data();
  data.bos = 256;
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "bos_token_id is 256, but there are 256 tokens");
  data.bos = 255;
  data.eos = -1;
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "eos_token_id is -1");
  data.eos.reset();
  data.pad = 300;
  EXPECT_ERROR(Tokenizer{data}, ErrorCode::kBadModel, "padding_token_id is 300");
}

TEST(Tokenizer, SurvivesBeingMoved) {
  Tokenizer first(test::bundled_tokenizer_data());
  const Tokens expected = first.encode("Once upon a time");
  const Tokenizer second(std::move(first));
  EXPECT_EQ(second.encode("Once upon a time"), expected);
}

TEST(Tokenizer, ServesSeveralThreads) {
  const std::string text = test::read_file(FATHOM_TEST_DATA_DIR "/tokenizer/reference_ids.jsonl");
  const Tokens expected = bundled().encode(text);
  std::vector<Tokens> results(4);
  std::vector<std::thread> threads;
  for (Tokens& result : results) {
    threads.emplace_back([&] { result = bundled().encode(text); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Tokens& result : results) {
    EXPECT_EQ(result, expected);
  }
}

}  // namespace
}  // namespace fathom
