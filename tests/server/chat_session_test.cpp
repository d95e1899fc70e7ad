// A job through the session: what reaches the engine, what comes back.
#include "server/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_error.h"
#include "support/scripted_engine.h"
#include "support/test_tokenizers.h"

namespace fathom::test {
namespace {

using Kind = ReplyEvent::Kind;
using std::chrono::milliseconds;

const Tokenizer& tokenizer() {
  static const Tokenizer instance{bundled_tokenizer_data()};
  return instance;
}

// The engine answers with this text.
Script says(const std::string& text) { return {.tokens = tokenizer().encode(text)}; }

ChatJob job(const std::string& text, Thinking thinking = Thinking::kOff) {
  ChatJob job;
  job.messages = {{.role = Role::kUser, .content = text}};
  job.thinking = thinking;
  return job;
}

struct Outcome {
  std::string reasoning;
  std::string content;
  std::string arguments;
  std::vector<std::string> calls;
  std::vector<ChosenToken> tokens;
  ReplyFinish finish = ReplyFinish::kLength;
  std::optional<std::string> stop_string;
};

std::vector<Outcome> drain(ChatSession& session) {
  std::vector<Outcome> outcomes(static_cast<size_t>(session.job().n));
  while (!session.finished()) {
    const auto event = session.next(milliseconds(5000));
    if (!event) {
      ADD_FAILURE() << "nothing came";
      break;
    }
    Outcome& out = outcomes.at(static_cast<size_t>(event->choice));
    switch (event->reply.kind) {
      case Kind::kReasoning:
        out.reasoning += event->reply.text;
        break;
      case Kind::kContent:
        out.content += event->reply.text;
        break;
      case Kind::kCallStart:
        out.calls.push_back(event->reply.name);
        break;
      case Kind::kArguments:
        out.arguments += event->reply.text;
        break;
      case Kind::kCallEnd:
        break;
      case Kind::kFinish:
        out.finish = event->reply.reason;
        out.stop_string = event->stop_string;
        break;
    }
    out.tokens.insert(out.tokens.end(), event->tokens.begin(), event->tokens.end());
  }
  return outcomes;
}

class ChatSessionTest : public testing::Test {
 protected:
  // The engine answers everything with `script`.
  ServedModel& model(Script script, int max_context = 4096, std::chrono::microseconds step = {}) {
    engine_.emplace([script = std::move(script)](const GenerationRequest&) { return script; }, max_context, step);
    model_.emplace(ServedModel{.engine = *engine_, .tokenizer = tokenizer(), .id = "tiny"});
    return *model_;
  }

  std::optional<ScriptedEngine> engine_;
  std::optional<ServedModel> model_;
};

TEST_F(ChatSessionTest, SplitsReasoningFromContent) {
  ChatSession session(model(says("I add.</think>Four.")), job("2+2?", Thinking::kLow));
  const Outcome out = drain(session).at(0);
  EXPECT_EQ(out.reasoning, "I add.");
  EXPECT_EQ(out.content, "Four.");
  EXPECT_EQ(out.finish, ReplyFinish::kStop);
  EXPECT_EQ(tokenizer().decode(engine_->requests().at(0).prompt),
            "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C><\uFF5CUser\uFF5C>2+2?<\uFF5CAssistant\uFF5C><think>");
  EXPECT_EQ(session.usage().prompt_tokens, static_cast<int>(engine_->requests().at(0).prompt.size()));
  EXPECT_EQ(session.usage().completion_tokens, static_cast<int>(tokenizer().encode("I add.</think>Four.").size()) + 1);
  EXPECT_EQ(session.usage().reasoning_tokens, static_cast<int>(tokenizer().encode("I add.</think>").size()));
}

TEST_F(ChatSessionTest, EndsWithTheCallsAndStopsTheEngineThere) {
  const std::string call =
      "\n\n<\uFF5CDSML\uFF5Ctool_calls>\n<\uFF5CDSML\uFF5Cinvoke name=\"get\">\n"
      "<\uFF5CDSML\uFF5Cparameter name=\"city\" string=\"true\">Rome</\uFF5CDSML\uFF5Cparameter>\n"
      "</\uFF5CDSML\uFF5Cinvoke>\n</\uFF5CDSML\uFF5Ctool_calls>";
  ChatJob with_tools = job("Weather?");
  with_tools.tools = {{.name = "get", .definition = R"({"name": "get"})"}};
  Script script = says("I look." + call);
  script.endless = true;
  ChatSession session(model(script, 4096, std::chrono::microseconds(200)), with_tools);
  const Outcome out = drain(session).at(0);
  EXPECT_EQ(out.content, "I look.");
  EXPECT_THAT(out.calls, testing::ElementsAre("get"));
  EXPECT_EQ(out.arguments, R"({"city": "Rome"})");
  EXPECT_EQ(out.finish, ReplyFinish::kToolCalls);
  EXPECT_EQ(session.usage().completion_tokens, static_cast<int>(script.tokens.size()));
}

TEST_F(ChatSessionTest, FindsStopStringsInContentOnly) {
  ChatJob stopped = job("Count", Thinking::kLow);
  stopped.stops = {"three", "two"};
  ChatSession session(model(says("one two</think>one, two, three")), stopped);
  const Outcome out = drain(session).at(0);
  EXPECT_EQ(out.reasoning, "one two");
  EXPECT_EQ(out.content, "one, ");
  EXPECT_EQ(out.finish, ReplyFinish::kStop);
  EXPECT_EQ(out.stop_string, "two");
}

TEST_F(ChatSessionTest, TokensWithLogprobsMakeUpTheText) {
  ChatJob wanted = job("Hi", Thinking::kLow);
  wanted.logprobs = 1;
  ChatSession session(model(says("Hm.</think>\n\nHello there, you.")), wanted);
  const Outcome out = drain(session).at(0);
  std::string reasoning;
  std::string content;
  for (const ChosenToken& token : out.tokens) {
    (token.reasoning ? reasoning : content) += tokenizer().token_bytes(token.token);
    EXPECT_EQ(token.logprobs.top.size(), 1U);
  }
  EXPECT_EQ(reasoning, out.reasoning);
  EXPECT_THAT(content, testing::EndsWith(out.content));
}

TEST_F(ChatSessionTest, ChoicesAreIndependentAndHaveSeedsOfTheirOwn) {
  ChatJob two = job("Hi");
  two.n = 2;
  two.sampling.seed = 7;
  ChatSession session(model(says("Hello.")), two);
  const std::vector<Outcome> out = drain(session);
  EXPECT_EQ(out.at(0).content, "Hello.");
  EXPECT_EQ(out.at(1).content, "Hello.");
  EXPECT_EQ(engine_->requests().at(0).sampling.seed, 7U);
  EXPECT_EQ(engine_->requests().at(1).sampling.seed, 8U);
}

TEST_F(ChatSessionTest, ContinuesAnOpenAnswer) {
  ChatJob open = job("Sort");
  open.messages.push_back({.role = Role::kAssistant, .content = "def", .open_ended = true});
  ChatSession session(model(says("\n sort")), open);
  EXPECT_EQ(drain(session).at(0).content, "\n sort");
}

template <class Call>
ApiErrorKind error_kind(const Call& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return error.kind();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  return ApiErrorKind::kInternal;
}

TEST_F(ChatSessionTest, RefusesAPromptThatLeavesNoRoom) {
  model(says("x"), 8);
  EXPECT_EQ(error_kind([&] { ChatSession(*model_, job("A prompt that is longer than eight tokens")); }),
            ApiErrorKind::kContextLength);
}

TEST_F(ChatSessionTest, RefusesWhenTheQueueIsFull) {
  model(says("x"));
  engine_->max_unfinished = 1;
  ChatJob two = job("Hi");
  two.n = 2;
  EXPECT_EQ(error_kind([&] { ChatSession(*model_, two); }), ApiErrorKind::kRateLimit);
}

TEST_F(ChatSessionTest, TellsOfEveryWayToFail) {
  const auto kind_after = [&](Script script) {
    ChatSession session(model(std::move(script)), job("Hi"));
    return error_kind([&] { static_cast<void>(session.next(milliseconds(5000))); });
  };
  EXPECT_EQ(kind_after({.end = FinishReason::kCancelled}), ApiErrorKind::kOverloaded);
  EXPECT_EQ(kind_after({.end = FinishReason::kDeadline}), ApiErrorKind::kTimeout);
  ChatSession session(model({.end = FinishReason::kError, .error = Error(ErrorCode::kDevice, "burnt")}), job("Hi"));
  EXPECT_THROW(static_cast<void>(session.next(milliseconds(5000))), Error);
}

TEST_F(ChatSessionTest, CutsOffAClientThatDoesNotRead) {
  Script endless = says("word ");
  endless.endless = true;
  ChatSession session(model(endless), job("Hi"));
  while (engine_->stats().running > 0) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(error_kind([&] { static_cast<void>(session.next(milliseconds(0))); }), ApiErrorKind::kOverloaded);
}

TEST_F(ChatSessionTest, ItsEndCancelsTheGeneration) {
  Script endless = says("word ");
  endless.endless = true;
  { ChatSession session(model(endless), job("Hi")); }
  EXPECT_EQ(engine_->stats().running, 0);
  EXPECT_EQ(engine_->stats().requests_finished, 1U);
}

}  // namespace
}  // namespace fathom::test
