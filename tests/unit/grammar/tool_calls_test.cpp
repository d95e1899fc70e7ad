#include "grammar/tool_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/prompt_text.h"
#include "grammar/token_grammar.h"
#include "support/expect_error.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer made(test::bundled_tokenizer_data());
  return made;
}

std::shared_ptr<const GrammarVocabulary> vocabulary() {
  static const auto made = std::make_shared<const GrammarVocabulary>(tokenizer());
  return made;
}

// "|" stands for the DSML token; the rest is tokenized as the model's own text would be.
bool matches(const TokenGrammar& grammar, std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at)) {
    text.replace(at, 1, literal::kDsml);
  }
  Matcher matcher = grammar.begin();
  std::vector<uint64_t> mask;
  for (const TokenId token : tokenizer().encode(text)) {
    grammar.fill_mask(matcher, mask);
    const bool allowed = (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1U) != 0;
    EXPECT_EQ(grammar.accept(matcher, token), allowed) << text;
    if (!allowed) {
      return false;
    }
  }
  return matcher.complete();
}

const std::vector<CallableTool>& tools() {
  static const std::vector<CallableTool> list = {
      {"get_weather",
       R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 9},
                          "unit": {"enum": ["C", "F"]}, "when": {"type": ["string", "null"]}}, "required": ["city"]})"},
      {"now", ""},
      {"put", R"({"type": "object", "properties": {"value": {}, "at": {"$ref": "#/$defs/p"}, "code": {"type": "string",
                 "pattern": "^[a-z]{2}$"}, "s": {"type": "string", "maxLength": 3}},
                 "$defs": {"p": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}})"},
      {"any", R"({"type": "object"})"},
  };
  return list;
}

std::string call(const std::string& name, const std::string& parameters) {
  return "<|invoke name=\"" + name + "\">\n" + parameters + "</|invoke>\n";
}

std::string parameter(const std::string& name, const char* is_string, const std::string& value) {
  return "<|parameter name=\"" + name + "\" string=\"" + is_string + "\">" + value + "</|parameter>\n";
}

std::string block(const std::string& calls) { return "\n\n<|tool_calls>\n" + calls + "</|tool_calls>"; }

TEST(ToolCalls, MatchWhatTheRendererWrites) {
  const TokenGrammar grammar(tool_calls_grammar(tools(), {}), vocabulary());
  const std::string city = parameter("city", "true", "Paris");
  EXPECT_TRUE(matches(grammar, block(call("get_weather", city))));
  EXPECT_TRUE(matches(grammar, block(call("get_weather", city + parameter("days", "false", "3")))));
  EXPECT_TRUE(matches(grammar, block(call("get_weather", city + parameter("unit", "true", "C")))));
  EXPECT_TRUE(matches(grammar, block(call("get_weather", city + parameter("when", "true", "now </b>\n\"q\"")))));
  EXPECT_TRUE(matches(grammar, block(call("get_weather", city + parameter("when", "false", "null")))));
  EXPECT_TRUE(matches(grammar, block(call("now", "\n"))));
  EXPECT_TRUE(matches(grammar, block(call("put", parameter("value", "false", "[1, {\"a\": \"b\"}]") +
                                                     parameter("at", "false", "{\"x\": 1.5}")))));
  EXPECT_TRUE(matches(grammar, block(call("put", parameter("value", "true", "text") + parameter("code", "true", "ab") +
                                                     parameter("s", "true", "a<b")))));
  EXPECT_TRUE(matches(grammar, block(call("any", parameter("x", "true", "1") + parameter("y z", "false", "1")))));
  EXPECT_TRUE(matches(grammar, block(call("now", "\n") + call("get_weather", city))));
}

TEST(ToolCalls, MatchNothingElse) {
  const TokenGrammar grammar(tool_calls_grammar(tools(), {}), vocabulary());
  const std::string city = parameter("city", "true", "Paris");
  EXPECT_FALSE(matches(grammar, ""));
  EXPECT_FALSE(matches(grammar, "hello"));
  EXPECT_FALSE(matches(grammar, block("")));
  EXPECT_FALSE(matches(grammar, block(call("other", "\n"))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", "\n"))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", city + city))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", parameter("city", "false", "\"Paris\"")))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", city + parameter("days", "true", "3")))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", city + parameter("days", "false", "10")))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", city + parameter("unit", "true", "K")))));
  EXPECT_FALSE(matches(grammar, block(call("get_weather", city + parameter("more", "true", "x")))));
  EXPECT_FALSE(matches(grammar, block(call("put", parameter("value", "false", "\"text\"")))));
  EXPECT_FALSE(matches(grammar, block(call("put", parameter("code", "true", "abc")))));
  EXPECT_FALSE(matches(grammar, block(call("put", parameter("s", "true", "abcd")))));
  EXPECT_FALSE(matches(grammar, block(call("now", "\n")) + "\n"));
}

TEST(ToolCalls, OneCallOnly) {
  const TokenGrammar grammar(tool_calls_grammar(tools(), {.parallel = false}), vocabulary());
  EXPECT_TRUE(matches(grammar, block(call("now", "\n"))));
  EXPECT_FALSE(matches(grammar, block(call("now", "\n") + call("now", "\n"))));
}

TEST(ToolCalls, BeginAfterTheTrigger) {
  const TokenGrammar grammar(tool_calls_grammar(tools(), {.after_trigger = true}), vocabulary());
  EXPECT_TRUE(matches(grammar, "tool_calls>\n" + call("now", "\n") + "</|tool_calls>"));
  EXPECT_FALSE(matches(grammar, block(call("now", "\n"))));
}

TEST(ToolCalls, OrAnAnswer) {
  const TokenGrammar grammar(calls_or_json_grammar(tools(), {}, R"({"type": "object", "required": ["a"]})"),
                             vocabulary());
  EXPECT_TRUE(matches(grammar, block(call("now", "\n"))));
  EXPECT_TRUE(matches(grammar, "{\"a\": 1}"));
  EXPECT_FALSE(matches(grammar, "{}"));
}

// The mark, spelled with ordinary tokens, would end a value for a reader of the text.
TEST(ToolCalls, RawValuesNeverContainTheMark) {
  const TokenGrammar grammar(tool_calls_grammar(tools(), {}), vocabulary());
  Matcher matcher = grammar.begin();
  for (const TokenId token :
       tokenizer().encode("\n\n<" + std::string(literal::kDsml) + "tool_calls>\n<" + std::string(literal::kDsml) +
                          "invoke name=\"get_weather\">\n<" + std::string(literal::kDsml) +
                          "parameter name=\"city\" string=\"true\">")) {
    ASSERT_TRUE(grammar.accept(matcher, token));
  }
  EXPECT_TRUE(matcher.accept("a \uFF5C\uFF5CDSML|DSML \uFF5CDSM \uFF5CDSML"));
  EXPECT_FALSE(matcher.accept("\uFF5C"));
  EXPECT_TRUE(matcher.accept("."));
}

TEST(ToolCalls, SayWhatIsWrong) {
  const auto compile = [](const std::vector<CallableTool>& list) { static_cast<void>(tool_calls_grammar(list, {})); };
  EXPECT_ERROR(compile({}), ErrorCode::kBadRequest, "tools: none, expected at least one to call");
  EXPECT_ERROR(compile({{"a", ""}, {"a", ""}}), ErrorCode::kBadRequest, "tool 'a' is offered twice");
  EXPECT_ERROR(compile({{"a\"b", ""}}), ErrorCode::kBadRequest, "tool 'a\"b': not a name that a call can hold");
  EXPECT_ERROR(compile({{"", ""}}), ErrorCode::kBadRequest, "tool '': not a name that a call can hold");
  EXPECT_ERROR(compile({{"f", R"({"properties": {"a\nb": {}}})"}}), ErrorCode::kBadRequest,
               "tool 'f': parameter 'a\\x0ab': not a name that a call can hold");
  EXPECT_ERROR(compile({{"f", R"({"properties": {"a": {"not": {}}}})"}}), ErrorCode::kBadRequest,
               "tool 'f': schema: #/properties/a/not: not supported");
  EXPECT_ERROR(compile({{"f", "3"}}), ErrorCode::kBadRequest, "tool 'f': schema: #: expected an object");
  EXPECT_ERROR(compile({{"f", "{"}}), ErrorCode::kBadRequest, "tool 'f': parameters: not valid JSON");
  EXPECT_ERROR(compile({{"f", R"({"type": "string"})"}}), ErrorCode::kBadRequest,
               "tool 'f': schema: #: expected a schema of objects");
  EXPECT_ERROR(static_cast<void>(calls_or_json_grammar(tools(), {}, "3")), ErrorCode::kBadRequest,
               "schema: #: expected an object");
}

}  // namespace
}  // namespace fathom
