// POST /v1/chat/completions from outside.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/prompt_text.h"
#include "support/test_server.h"

namespace fathom::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kHello = R"({"messages": [{"role": "user", "content": "Hi"}]})";
constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object",
       "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])";

std::string invoke(const std::string& city) {
  return "<\uFF5CDSML\uFF5Cinvoke name=\"get\">\n<\uFF5CDSML\uFF5Cparameter name=\"city\" string=\"true\">" + city +
         "</\uFF5CDSML\uFF5Cparameter>\n</\uFF5CDSML\uFF5Cinvoke>\n";
}
std::string calls(const std::string& invokes) {
  return "\n\n<\uFF5CDSML\uFF5Ctool_calls>\n" + invokes + "</\uFF5CDSML\uFF5Ctool_calls>";
}

class OpenAiChat : public ServerTest {
 protected:
  // A request with these members beside the message.
  static std::string with(const std::string& members) {
    return R"({"messages": [{"role": "user", "content": "Hi"}], )" + members + "}";
  }
  [[nodiscard]] std::string prompt(size_t request = 0) const {
    return bundled_tokenizer().decode(engine_->requests().at(request).prompt);
  }
  void expect_refused(const std::string& body, const std::string& text, const std::string& param) const {
    SCOPED_TRACE(body);
    const Json error = expect_json(post(kChat, body), 400).at("error");
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr(text));
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    EXPECT_EQ(error.at("param"), param.empty() ? Json() : Json(param));
  }
};

TEST_F(OpenAiChat, AnswersWhole) {
  start(says("Hello there."));
  const Json json = expect_json(post(kChat, with(R"("model": "gpt-9", "unknown_field": {"a": 1})")));
  EXPECT_THAT(json.at("id").get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(json.at("object"), "chat.completion");
  EXPECT_EQ(json.at("model"), "gpt-9");
  EXPECT_THAT(json.at("system_fingerprint").get<std::string>(), StartsWith("fp_"));
  const Json& choice = json.at("choices").at(0);
  EXPECT_EQ(choice.at("message"), (Json{{"role", "assistant"}, {"content", "Hello there."}}));
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  const int n_prompt = static_cast<int>(engine_->requests().at(0).prompt.size());
  const int n_reply = static_cast<int>(bundled_tokenizer().encode("Hello there.").size()) + 1;
  EXPECT_EQ(json.at("usage"), (Json{{"prompt_tokens", n_prompt},
                                    {"completion_tokens", n_reply},
                                    {"total_tokens", n_prompt + n_reply},
                                    {"prompt_tokens_details", {{"cached_tokens", 0}}},
                                    {"completion_tokens_details", {{"reasoning_tokens", 0}}},
                                    {"prompt_cache_hit_tokens", 0},
                                    {"prompt_cache_miss_tokens", n_prompt}}));
}

TEST_F(OpenAiChat, TellsWhatWasInTheCache) {
  Script script = says("Hello.");
  script.cached = 3;
  start(script);
  const Json usage = expect_json(post(kChat, kHello)).at("usage");
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 3);
  EXPECT_EQ(usage.at("prompt_cache_hit_tokens"), 3);
  EXPECT_EQ(usage.at("prompt_cache_miss_tokens").get<int>() + 3, usage.at("prompt_tokens").get<int>());
}

TEST_F(OpenAiChat, StreamsReasoningContentAndUsage) {
  start(says("I think.</think>Hello there."));
  const std::vector<Json> events =
      stream(kChat, with(R"("stream": true, "stream_options": {"include_usage": true}, "reasoning_effort": "low")"));
  ASSERT_GE(events.size(), 5U);
  EXPECT_EQ(events.front().at("choices").at(0).at("delta"), (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events.back(), "[DONE]");
  const Json& usage = events.at(events.size() - 2);
  EXPECT_TRUE(usage.at("choices").empty());
  EXPECT_GT(usage.at("usage").at("completion_tokens_details").at("reasoning_tokens").get<int>(), 0);
  const Json& last = events.at(events.size() - 3);
  EXPECT_EQ(last.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_TRUE(last.at("choices").at(0).at("delta").empty());
  std::string reasoning;
  std::string content;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    EXPECT_EQ(events[i].at("id"), events.front().at("id"));
    EXPECT_EQ(events[i].at("object"), "chat.completion.chunk");
    EXPECT_TRUE(events[i].at("usage").is_null());
    const Json& delta = events[i].at("choices").at(0).at("delta");
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
  }
  EXPECT_EQ(reasoning, "I think.");
  EXPECT_EQ(content, "Hello there.");
}

TEST_F(OpenAiChat, CallsTools) {
  start(says("I look." + calls(invoke("Rome") + invoke("Oslo"))));
  const Json choice = expect_json(post(kChat, with(kTools))).at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_EQ(choice.at("message").at("content"), "I look.");
  const Json& list = choice.at("message").at("tool_calls");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].at("type"), "function");
  EXPECT_EQ(list[0].at("function"), (Json{{"name", "get"}, {"arguments", R"({"city": "Rome"})"}}));
  EXPECT_EQ(list[1].at("function").at("arguments"), R"({"city": "Oslo"})");
  EXPECT_NE(list[0].at("id"), list[1].at("id"));
  EXPECT_THAT(prompt(), HasSubstr("## Tools"));
}

TEST_F(OpenAiChat, GivesTheModelBackWhatItWrote) {
  // One token per byte of the city, as sampling may have it and tokenizing never would.
  Script script = says(calls(invoke("Rome")));
  const auto rome = std::ranges::search(script.tokens, bundled_tokenizer().encode("Rome"));
  const auto at = script.tokens.erase(rome.begin(), rome.end());
  const std::vector<TokenId> letters = {*bundled_tokenizer().find("R"), *bundled_tokenizer().find("o"),
                                        *bundled_tokenizer().find("m"), *bundled_tokenizer().find("e")};
  script.tokens.insert(at, letters.begin(), letters.end());
  start(script);
  const Json call = expect_json(post(kChat, with(kTools))).at("choices").at(0).at("message").at("tool_calls").at(0);
  EXPECT_EQ(call.at("function").at("arguments"), R"({"city": "Rome"})");
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}},
                                     {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({call})}},
                                     {{"role", "tool"}, {"tool_call_id", call.at("id")}, {"content", "21"}}});
  static_cast<void>(expect_json(post(kChat, R"({"messages": )" + messages.dump() + ", " + kTools + "}")));
  const std::vector<TokenId> prompt = engine_->requests().at(1).prompt;
  EXPECT_FALSE(std::ranges::search(prompt, script.tokens).empty());
}

TEST_F(OpenAiChat, ConstrainsWhatHasAForm) {
  start(says("Hello."));
  const auto constraint = [&](const std::string& members) {
    static_cast<void>(expect_json(post(kChat, with(members))));
    return engine_->requests().back().constraint;
  };
  EXPECT_FALSE(constraint(R"("n": 1)").has_value());
  EXPECT_FALSE(constraint(std::string(R"("tool_choice": "none", )") + kTools).has_value());
  EXPECT_TRUE(constraint(kTools)->trigger.has_value()) << "a call that may come";
  EXPECT_FALSE(constraint(std::string(R"("tool_choice": "required", )") + kTools)->trigger.has_value());
  EXPECT_TRUE(
      constraint(std::string(R"("reasoning_effort": "low", "tool_choice": "required", )") + kTools)->trigger->required);
  EXPECT_FALSE(constraint(R"("response_format": {"type": "json_object"})")->trigger.has_value());
  EXPECT_TRUE(constraint(R"("response_format": {"type": "regex", "pattern": "a+"}, "reasoning_effort": "low")")
                  ->trigger.has_value());
  EXPECT_TRUE(constraint(R"("response_format": {"type": "grammar", "grammar": "root ::= \"a\""})").has_value());
  EXPECT_TRUE(constraint(std::string(R"("response_format": {"type": "json_object"}, )") + kTools).has_value());
  expect_refused(with(std::string(R"("response_format": {"type": "regex", "pattern": "a"}, )") + kTools),
                 "cannot be had together with tools", "response_format");
}

TEST_F(OpenAiChat, StreamsCallsAppendOnly) {
  start(says(calls(invoke("Rome") + invoke("Oslo"))));
  std::vector<std::string> arguments(2);
  std::vector<int> starts(2);
  std::string finish;
  for (const Json& event : stream(kChat, with(std::string(R"("stream": true, )") + kTools))) {
    if (event == "[DONE]") {
      continue;
    }
    const Json& choice = event.at("choices").at(0);
    finish = choice.at("finish_reason").is_null() ? finish : choice.at("finish_reason").get<std::string>();
    for (const Json& call : choice.at("delta").value("tool_calls", Json::array())) {
      const auto index = call.at("index").get<size_t>();
      starts.at(index) += static_cast<int>(call.contains("id"));
      arguments.at(index) += call.at("function").at("arguments").get<std::string>();
    }
  }
  EXPECT_THAT(starts, testing::ElementsAre(1, 1));
  EXPECT_THAT(arguments, testing::ElementsAre(R"({"city": "Rome"})", R"({"city": "Oslo"})"));
  EXPECT_EQ(finish, "tool_calls");
}

TEST_F(OpenAiChat, ShowsNoToolsWhenNoneMayBeCalled) {
  start(says("Hello." + calls(invoke("Rome"))));
  const Json choice =
      expect_json(post(kChat, with(std::string(R"("tool_choice": "none", )") + kTools))).at("choices").at(0);
  EXPECT_EQ(choice.at("message"), (Json{{"role", "assistant"}, {"content", "Hello."}}));
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_THAT(prompt(), testing::Not(HasSubstr("## Tools")));
}

TEST_F(OpenAiChat, UnderstandsEveryWordForThinking) {
  start(says("Hello."));
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"("n": 1)", "</think>"},
      {R"("reasoning_effort": "none")", "</think>"},
      {R"("reasoning_effort": "minimal")", "<think>"},
      {R"("reasoning_effort": "xhigh")", "<think>"},
      {R"("reasoning_effort": "ultra")", "<think>"},
      {R"("thinking": {"type": "enabled"})", "<think>"},
      {R"("thinking": {"type": "adaptive"})", "<think>"},
      {R"("thinking": {"type": "disabled"}, "reasoning_effort": "high")", "</think>"},
      {R"("chat_template_kwargs": {"thinking": true})", "<think>"},
      {R"("chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "high")", "</think>"},
      {R"("chat_template_kwargs": {"reasoning_effort": "low"})", "<think>"},
      {R"("think": true)", "<think>"},
      {R"("model": "deepseek-reasoner")", "<think>"},
      {R"("model": "deepseek-chat")", "</think>"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].first);
    static_cast<void>(expect_json(post(kChat, with(cases[i].first))));
    EXPECT_THAT(prompt(i), testing::EndsWith(std::string(literal::kAssistant) + cases[i].second));
  }
  EXPECT_THAT(prompt(4), HasSubstr("Beyond maximum"));
  EXPECT_THAT(prompt(3), HasSubstr("Absolute maximum"));
  EXPECT_THAT(prompt(2), testing::Not(HasSubstr("Reasoning Effort")));
}

TEST_F(OpenAiChat, HandsSamplingToTheEngine) {
  start(says("Hello."));
  static_cast<void>(expect_json(post(
      kChat, with(R"("temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 11, "presence_penalty": 1,
                     "frequency_penalty": -1, "repetition_penalty": 1.5, "logit_bias": {"17": -100},
                     "max_completion_tokens": 9, "max_tokens": 8)"))));
  const GenerationRequest request = engine_->requests().at(0);
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(request.sampling.min_p, 0.05F);
  EXPECT_EQ(request.sampling.seed, 11U);
  EXPECT_FLOAT_EQ(request.sampling.presence_penalty, 1.0F);
  EXPECT_FLOAT_EQ(request.sampling.frequency_penalty, -1.0F);
  EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.5F);
  ASSERT_EQ(request.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(request.sampling.logit_bias[0].token, 17);
  EXPECT_EQ(request.max_tokens, 9);
}

TEST_F(OpenAiChat, EndsAtStopStringsAndLimits) {
  start(says("one two three"));
  const Json stopped = expect_json(post(kChat, with(R"("stop": ["three", " two"])"))).at("choices").at(0);
  EXPECT_EQ(stopped.at("message").at("content"), "one");
  EXPECT_EQ(stopped.at("finish_reason"), "stop");
  const Json cut = expect_json(post(kChat, with(R"("max_tokens": 1)"))).at("choices").at(0);
  EXPECT_EQ(cut.at("finish_reason"), "length");
}

TEST_F(OpenAiChat, GivesLogprobs) {
  start(says("Hello there."));
  const Json json = expect_json(post(kChat, with(R"("logprobs": true, "top_logprobs": 2)")));
  const Json& list = json.at("choices").at(0).at("logprobs").at("content");
  std::string text;
  for (const Json& token : list) {
    text += token.at("token").get<std::string>();
    EXPECT_EQ(token.at("top_logprobs").size(), 2U);
    EXPECT_FLOAT_EQ(token.at("logprob").get<float>(), -0.5F);
    EXPECT_EQ(token.at("bytes").size(), token.at("token").get<std::string>().size());
  }
  EXPECT_EQ(text, "Hello there.");
}

TEST_F(OpenAiChat, GivesSeveralChoices) {
  start(says("Hello."));
  const Json json = expect_json(post(kChat, with(R"("n": 3)")));
  ASSERT_EQ(json.at("choices").size(), 3U);
  EXPECT_EQ(json.at("choices")[2].at("index"), 2);
  EXPECT_EQ(json.at("choices")[2].at("message").at("content"), "Hello.");
}

TEST_F(OpenAiChat, ContinuesAPrefix) {
  start(says(" world"));
  const Json json = expect_json(post(kChat, R"({"messages": [{"role": "user", "content": "Hi"},
                                               {"role": "assistant", "content": "Hello", "prefix": true}]})"));
  EXPECT_EQ(json.at("choices").at(0).at("message").at("content"), " world");
  EXPECT_THAT(prompt(), testing::EndsWith("</think>Hello"));
}

TEST_F(OpenAiChat, PutsASchemaIntoThePrompt) {
  start(says(R"({"a": 1})"));
  static_cast<void>(expect_json(post(kChat, with(R"("response_format": {"type": "json_schema", "json_schema":
      {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}})"))));
  EXPECT_THAT(prompt(), HasSubstr(R"(following schema to reply:
{"type": "object", "properties": {"a": {"type": "integer"}}}<)"));
}

TEST_F(OpenAiChat, NamesTheFieldThatIsWrong) {
  start(says("Hello."));
  expect_refused("{", "not valid JSON", "body");
  expect_refused("[]", "expected an object", "body");
  expect_refused("{}", "expected an array, got nothing", "messages");
  expect_refused(R"({"messages": "Hi"})", "expected an array", "messages");
  expect_refused(R"({"messages": []})", "expected at least one", "messages");
  expect_refused(R"({"messages": [{"role": "bard"}]})", "expected one of", "messages[0].role");
  expect_refused(with(R"("temperature": "hot")"), "expected a number, got", "temperature");
  expect_refused(with(R"("temperature": -1)"), "temperature", "temperature");
  expect_refused(with(R"("max_tokens": 0)"), "expected an integer from 1", "max_tokens");
  expect_refused(with(R"("max_tokens": 1.5)"), "expected an integer", "max_tokens");
  expect_refused(with(R"("stream": 1)"), "expected true or false", "stream");
  expect_refused(with(R"("stop": [1])"), "expected a string", "stop[0]");
  expect_refused(with(R"("stop": [""])"), "at least one character", "stop[0]");
  expect_refused(with(R"("n": 99)"), "expected an integer from 1 to 16", "n");
  expect_refused(with(R"("top_logprobs": 2)"), "needs", "top_logprobs");
  expect_refused(with(R"("logprobs": true, "top_logprobs": 21)"), "from 0 to 20", "top_logprobs");
  expect_refused(with(R"("reasoning_effort": "heroic")"), "expected one of none, minimal", "reasoning_effort");
  expect_refused(with(R"("thinking": {"type": "maybe"})"), "one of enabled, adaptive, disabled", "thinking.type");
  expect_refused(with(R"("tool_choice": "required")"), "there are no tools", "tool_choice");
  expect_refused(with(R"("tool_choice": "sometimes")"), "none, auto, required", "tool_choice");
  expect_refused(with(std::string(kTools) + R"(, "tool_choice": {"type": "function", "function": {"name": "put"}})"),
                 "no tool named put", "tool_choice");
  expect_refused(with(R"("response_format": {"type": "xml"})"), "json_object", "response_format.type");
  expect_refused(with(R"("response_format": {"type": "json_schema"})"), "expected an object", "response_format.schema");
  expect_refused(with(R"("logit_bias": {"x": 1})"), "expected token ids", "logit_bias");
  expect_refused("{\"messages\": \"\xff\"}", "not valid UTF-8", "body");
}

TEST_F(OpenAiChat, TellsAgentsThatTheContextIsFull) {
  start([](const GenerationRequest&) { return says("x"); }, {}, 4);
  const Json error = expect_json(post(kChat, with(R"("stream": true)")), 400).at("error");
  EXPECT_EQ(error.at("code"), "context_length_exceeded");
  EXPECT_EQ(error.at("param"), "messages");
  EXPECT_THAT(error.at("message").get<std::string>(), StartsWith("prompt is too long: "));
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("maximum context length is 4 tokens"));
}

TEST_F(OpenAiChat, SaysWhenTheQueueIsFull) {
  start(says("x"));
  engine_->max_unfinished = 0;
  const httplib::Result result = post(kChat, kHello);
  EXPECT_EQ(expect_json(result, 429).at("error").at("code"), "rate_limit_exceeded");
  EXPECT_EQ(result->get_header_value("Retry-After"), "1");
}

TEST_F(OpenAiChat, FailuresOfTheEngineAreErrors) {
  start(Script{.end = FinishReason::kError, .error = Error(ErrorCode::kDevice, "burnt")});
  const Json error = expect_json(post(kChat, kHello), 500).at("error");
  EXPECT_EQ(error.at("type"), "server_error");
  EXPECT_THAT(error.at("message").get<std::string>(), testing::Not(HasSubstr("burnt")));
  const std::vector<Json> events = stream(kChat, with(R"("stream": true)"));
  EXPECT_EQ(events.back().at("error").at("type"), "server_error");
}

TEST_F(OpenAiChat, EndsARequestAtItsDeadline) {
  request_timeout_ = std::chrono::seconds(1);
  start(says_forever("word "), {}, std::chrono::milliseconds(5));
  EXPECT_EQ(expect_json(post(kChat, kHello), 504).at("error").at("code"), "timeout");
}

}  // namespace
}  // namespace fathom::test
