// One text completion from prompts to pieces of text.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/utf8.h"
#include "sampling/stop_matcher.h"
#include "server/chat_session.h"
#include "server/text_job.h"
#include "server/token_feed.h"

namespace fathom {

// A token of a completion; of an echoed prompt's first token there is no log-probability.
struct TextToken {
  TokenId token = 0;
  std::optional<Logprobs> logprobs = {};
};

// What one choice goes on with. Choice i continues prompt i / n.
struct TextEvent {
  int choice = 0;
  std::string text = {};
  std::vector<TextToken> tokens = {};  // behind the text of this event and before
  std::optional<ReplyFinish> finish = {};
};

// Used by one thread.
class TextSession {
 public:
  // Throws ApiError (kContextLength, kRateLimit) and Error kBadRequest.
  TextSession(const ServedModel& model, TextJob job);

  // As ChatSession::next.
  [[nodiscard]] std::optional<TextEvent> next(std::chrono::milliseconds timeout);
  [[nodiscard]] bool finished() const { return n_finished_ == choices_.size() && ready_.empty(); }
  [[nodiscard]] std::string_view outcome() const { return outcome_; }
  [[nodiscard]] const TextJob& job() const { return job_; }
  [[nodiscard]] const ChatUsage& usage() const { return usage_; }
  [[nodiscard]] const GenerationTimes& times() const { return times_; }

 private:
  struct Choice {
    StopMatcher stops;
    Utf8Stream utf8 = {};
    std::vector<TextToken> tokens = {};
    std::optional<GenerationTimes::Clock::time_point> last_token = {};
    bool finished = false;
  };

  [[nodiscard]] std::vector<GenerationRequest> requests() const;
  void echo_prompt(int index);
  void on_prompt(int index, PromptEvent& event);
  void on_token(int index, TokenEvent& event, GenerationTimes::Clock::time_point at);
  void on_finish(int index, const FinishEvent& event);
  void finish(int index, ReplyFinish reason);
  void emit(int index, std::string text, std::optional<ReplyFinish> finish = {});

  const ServedModel& model_;
  TextJob job_;
  ChatUsage usage_;
  GenerationTimes times_;
  std::string_view outcome_;
  std::vector<Choice> choices_;
  size_t n_finished_ = 0;
  std::deque<TextEvent> ready_;
  std::optional<TokenFeed> feed_;
};

}  // namespace fathom
