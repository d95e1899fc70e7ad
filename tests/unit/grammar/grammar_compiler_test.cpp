#include "grammar/grammar_compiler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "random_walk.h"
#include "support/expect_error.h"
#include "support/test_tokenizers.h"

namespace fathom {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer made(test::bundled_tokenizer_data());
  return made;
}

TEST(GrammarCompiler, KeepsWhatItMade) {
  GrammarCompiler compiler(tokenizer());
  const auto first = compiler.json_schema(R"({"type": "integer"})");
  EXPECT_EQ(compiler.json_schema(R"({"type": "integer"})"), first);
  EXPECT_NE(compiler.json_schema(R"({"type": "number"})"), first);
  // The same text asks for another thing elsewhere.
  EXPECT_NE(compiler.regex("[a]"), compiler.regex("[b]"));
  EXPECT_EQ(compiler.json_object(), compiler.json_object());
  EXPECT_EQ(compiler.gbnf("root ::= \"a\""), compiler.gbnf("root ::= \"a\""));
  EXPECT_NE(compiler.tool_calls({{"a", ""}}, {}), compiler.tool_calls({{"a", ""}}, {.parallel = false}));
  EXPECT_EQ(compiler.tool_calls({{"a", ""}}, {}), compiler.tool_calls({{"a", ""}}, {}));
  EXPECT_NE(compiler.calls_or_json({{"a", ""}}, {}, "{}"), compiler.tool_calls({{"a", ""}}, {}));
  // Until 64 others came after it.
  for (int i = 0; i < 64; ++i) {
    static_cast<void>(compiler.regex(fmt::format("x{}", i)));
  }
  EXPECT_NE(compiler.json_schema(R"({"type": "integer"})"), first);
  EXPECT_ERROR(static_cast<void>(compiler.regex("(")), ErrorCode::kBadRequest, "regex");
}

TEST(GrammarCompiler, ConstraintsKnowWhenTheyBegin) {
  GrammarCompiler compiler(tokenizer());
  const ChatTokens chat = tokenizer().require_chat_tokens();
  EXPECT_FALSE(constrain_reply(compiler.json_object(), chat, false).trigger.has_value());
  const GenerationConstraint later = constrain_reply(compiler.json_object(), chat, true);
  EXPECT_EQ(later.trigger->token, chat.end_think);
  EXPECT_TRUE(later.trigger->required);
  const GenerationConstraint calls = constrain_calls(compiler.tool_calls({{"a", ""}}, {.after_trigger = true}), chat);
  EXPECT_EQ(calls.trigger->token, chat.dsml);
  EXPECT_TRUE(calls.trigger->opens_line);
  EXPECT_FALSE(calls.trigger->required);
}

// Any way through the masks that ends is JSON, and the mask never leads into a dead end.
TEST(GrammarCompiler, RandomWalksEndInJson) {
  GrammarCompiler compiler(tokenizer());
  std::mt19937 random(3);
  const char* schemas[] = {
      R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "number"},
          "c": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}}, "additionalProperties": {"type": "null"}})",
      R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"},
          {"type": "null"}]}}, "required": ["next"]}}})",
      R"({"type": "array", "items": {"type": "string", "pattern": "^[^a-z]{1,8}$"}, "minItems": 1, "maxItems": 4})",
      R"({"type": "string", "minLength": 5, "maxLength": 30})",
  };
  int n_ended = 0;
  for (const char* schema : schemas) {
    const auto grammar = compiler.json_schema(schema);
    for (int walk = 0; walk < 20; ++walk) {
      Matcher matcher = grammar->begin();
      std::vector<uint64_t> mask;
      std::string text;
      for (int i = 0; i < 300; ++i) {
        grammar->fill_mask(matcher, mask);
        std::vector<TokenId> allowed;
        for (size_t t = 0; t < grammar->vocab(); ++t) {
          if (test::may(mask, static_cast<TokenId>(t))) {
            allowed.push_back(static_cast<TokenId>(t));
          }
        }
        if (allowed.empty() || (matcher.complete() && random() % 4 == 0)) {
          ASSERT_TRUE(matcher.complete()) << schema << "\n" << text;
          EXPECT_TRUE(nlohmann::json::accept(text)) << text;
          ++n_ended;
          break;
        }
        const TokenId token = allowed[random() % allowed.size()];
        ASSERT_TRUE(grammar->accept(matcher, token));
        text += grammar->text(token);
      }
    }
  }
  EXPECT_GT(n_ended, 40);
}

}  // namespace
}  // namespace fathom
