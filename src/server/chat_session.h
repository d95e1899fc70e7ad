// One chat generation from messages to events: what lies between an API's request and its response, the same for all
// of them.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "chat/reply_parser.h"
#include "sampling/stop_matcher.h"
#include "server/chat_job.h"
#include "server/metrics.h"
#include "server/served_model.h"
#include "server/token_feed.h"

namespace fathom {

// "length", "stop", "tool_calls".
[[nodiscard]] const char* finish_name(ReplyFinish finish);

struct ChatUsage {
  int prompt_tokens = 0;
  int cached_tokens = 0;      // of the prompt: not computed again
  int completion_tokens = 0;  // of all choices, reasoning and the end of the turn included
  int reasoning_tokens = 0;   // of those
};

// A generated token as log-probabilities speak of it.
struct ChosenToken {
  TokenId token = 0;
  bool reasoning = false;  // else content
  Logprobs logprobs;
};

// When what happened, for logs and metrics.
struct GenerationTimes {
  using Clock = std::chrono::steady_clock;

  Clock::time_point submitted = Clock::now();
  std::optional<double> queue_seconds = {};  // known of an answer that ended by itself
  std::optional<Clock::time_point> first_token = {};
  std::optional<Clock::time_point> last_token = {};
  Histogram token_gaps{token_gap_bounds()};  // of all choices
};

// A ReplyEvent of one of the answers, with what only the session knows.
struct ChatEvent {
  int choice = 0;
  ReplyEvent reply;
  // With log-probabilities, if asked for: the tokens of the text that was sent up to here and of which no earlier event
  // told. Only kReasoning, kContent and kFinish have any; tokens of markup and calls are left out.
  std::vector<ChosenToken> tokens = {};
  std::optional<std::string> stop_string = {};  // kFinish: the one that ended the answer; the text ends before it
};

// Used by one thread at a time.
class ChatSession {
 public:
  // Renders, tokenizes and submits. Throws ApiError (kContextLength, kRateLimit) and Error kBadRequest; after the
  // constructor a failure can only come out of next().
  ChatSession(const ServedModel& model, ChatJob job);
  ~ChatSession();  // cancels what still runs

  // The next event, waiting for it up to `timeout`; nullopt: none came in time, or finished(). Each choice ends with a
  // kFinish. Throws ApiError when the generation failed: the session is over then.
  [[nodiscard]] std::optional<ChatEvent> next(std::chrono::milliseconds timeout);
  [[nodiscard]] bool finished() const { return n_finished_ == choices_.size() && ready_.empty(); }

  // How it ended, in a word: "stop", "stop_string", "length", "tool_calls"; that of the last choice.
  [[nodiscard]] std::string_view outcome() const { return outcome_; }

  // prompt_tokens is known from the beginning, cached_tokens with the first event, the rest grows.
  [[nodiscard]] const ChatUsage& usage() const { return usage_; }
  [[nodiscard]] const GenerationTimes& times() const { return times_; }
  [[nodiscard]] const ChatJob& job() const { return job_; }
  [[nodiscard]] int prompt_done() const { return feed_->prompt().n_done; }  // tokens processed; from any thread

  // Only the tokens of the prompt that a job makes. Throws as the constructor does for a job that is no conversation.
  [[nodiscard]] static std::vector<TokenId> prompt_tokens(const ServedModel& model, const ChatJob& job);

 private:
  // One of the answers.
  struct Choice {
    ReplyParser parser;
    StopMatcher stops;
    std::vector<ChosenToken> tokens = {};           // whose text has not been sent
    SampledReply sampled = {};                      // all of it, when tools are offered
    ChatMessage sent = {.role = Role::kAssistant};  // the same as the client gets it
    int n_complete_calls = 0;
    bool calls = false;  // a call has begun
    std::optional<GenerationTimes::Clock::time_point> last_token = {};
    bool finished = false;
  };

  void submit(std::vector<TokenId> prompt, std::optional<GenerationConstraint> constraint);
  void note_time(Choice& choice, GenerationTimes::Clock::time_point at);
  void on_token(int index, TokenEvent& event);
  void on_finish(int index, const FinishEvent& event);
  void finish(int index, ReplyEnd end);
  void send(int index, ReplyEvent event);
  void send_content(int index, const std::string& text);
  void emit(int index, ReplyEvent event);
  void keep(Choice& choice, const ReplyEvent& event);
  void remember(Choice& choice);

  const ServedModel& model_;
  ChatJob job_;
  ChatUsage usage_;
  GenerationTimes times_;
  std::string_view outcome_;
  std::vector<Choice> choices_;
  bool offers_tools_ = false;
  size_t n_finished_ = 0;
  std::deque<ChatEvent> ready_;
  std::optional<TokenFeed> feed_;
};

}  // namespace fathom
