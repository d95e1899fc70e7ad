#include "server/text_session.h"

#include <algorithm>
#include <utility>

#include "server/api_error.h"

namespace fathom {

TextSession::TextSession(const ServedModel& model, TextJob job) : model_(model), job_(std::move(job)) {
  for (const std::vector<TokenId>& prompt : job_.prompts) {
    if (prompt.size() >= static_cast<size_t>(model_.engine.max_context())) {
      throw context_length_error(prompt.size(), model_.engine.max_context(), "prompt");
    }
    usage_.prompt_tokens += static_cast<int>(prompt.size());
  }
  const size_t n_choices = job_.prompts.size() * static_cast<size_t>(job_.n);
  for (size_t i = 0; i < n_choices; ++i) {
    choices_.push_back({.stops = StopMatcher(job_.stops)});
  }
  feed_.emplace(model_.engine, requests());
  if (job_.echo && !job_.logprobs) {
    for (size_t i = 0; i < n_choices; ++i) {
      echo_prompt(static_cast<int>(i));
    }
  }
}

std::vector<GenerationRequest> TextSession::requests() const {
  GenerationRequest request;
  request.sampling = job_.sampling;
  request.max_tokens = job_.max_tokens;
  request.logprobs = job_.logprobs;
  if (job_.echo) {
    request.prompt_logprobs = job_.logprobs;
  }
  if (model_.tokenizer.eos()) {
    request.stop_tokens.push_back(*model_.tokenizer.eos());
  }
  if (model_.request_timeout) {
    request.deadline = GenerationTimes::Clock::now() + *model_.request_timeout;
  }
  std::vector<GenerationRequest> requests;
  for (size_t i = 0; i < choices_.size(); ++i) {
    request.prompt = job_.prompts[i / static_cast<size_t>(job_.n)];
    requests.push_back(request);
    if (request.sampling.seed) {
      ++*request.sampling.seed;
    }
  }
  return requests;
}

// The prompt as the beginning of the answer. The token that begins every document is not shown.
void TextSession::echo_prompt(int index) {
  const std::vector<TokenId>& prompt = job_.prompts[static_cast<size_t>(index / job_.n)];
  emit(index, replace_invalid_utf8(model_.tokenizer.decode(prompt, true)));
}

std::optional<TextEvent> TextSession::next(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (ready_.empty() && !finished()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    std::optional<FeedEvent> event = feed_->next(std::max(left, std::chrono::milliseconds(0)));
    if (!event) {
      return std::nullopt;
    }
    if (auto* prompt = std::get_if<PromptEvent>(&event->event)) {
      on_prompt(event->choice, *prompt);
    } else if (auto* token = std::get_if<TokenEvent>(&event->event)) {
      on_token(event->choice, *token, event->at);
    } else {
      on_finish(event->choice, std::get<FinishEvent>(event->event));
    }
  }
  if (ready_.empty()) {
    return std::nullopt;
  }
  TextEvent event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

// Only for echo with log-probabilities.
void TextSession::on_prompt(int index, PromptEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const std::vector<TokenId>& prompt = job_.prompts[static_cast<size_t>(index / job_.n)];
  if (event.first_position == 1) {
    choice.tokens.push_back({prompt.front()});
  }
  for (size_t i = 0; i < event.logprobs.size(); ++i) {
    const size_t position = static_cast<size_t>(event.first_position) + i;
    choice.tokens.push_back({prompt[position], std::move(event.logprobs[i])});
  }
  if (event.n_done == event.n_total) {
    echo_prompt(index);
  }
}

void TextSession::on_token(int index, TokenEvent& event, GenerationTimes::Clock::time_point at) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (choice.finished) {
    return;
  }
  ++usage_.completion_tokens;
  if (!times_.first_token) {
    usage_.cached_tokens = feed_->prompt().n_cached;
    times_.first_token = at;
  }
  if (choice.last_token) {
    times_.token_gaps.observe(std::chrono::duration<double>(at - *choice.last_token).count());
  }
  choice.last_token = times_.last_token = at;
  if (job_.logprobs || job_.return_ids) {
    choice.tokens.push_back({event.token, std::move(event.logprobs)});
  }
  std::string text = choice.stops.feed(choice.utf8.push(model_.tokenizer.token_bytes(event.token)));
  if (!text.empty()) {
    emit(index, std::move(text));
  }
  if (choice.stops.matched()) {
    feed_->cancel(index);
    finish(index, ReplyFinish::kStop);
  }
}

void TextSession::on_finish(int index, const FinishEvent& event) {
  if (choices_[static_cast<size_t>(index)].finished) {
    return;
  }
  times_.queue_seconds = event.queue_seconds;
  switch (event.reason) {
    case FinishReason::kStop:
      ++usage_.completion_tokens;  // the stop token
      return finish(index, ReplyFinish::kStop);
    case FinishReason::kLength:
      return finish(index, ReplyFinish::kLength);
    default:
      throw_unfinished(event);
  }
}

void TextSession::finish(int index, ReplyFinish reason) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  std::string rest = choice.stops.feed(choice.utf8.finish());
  rest += choice.stops.finish();
  choice.finished = true;
  ++n_finished_;
  outcome_ = finish_name(reason);
  emit(index, std::move(rest), reason);
}

void TextSession::emit(int index, std::string text, std::optional<ReplyFinish> finish) {
  ready_.push_back({.choice = index,
                    .text = std::move(text),
                    .tokens = std::exchange(choices_[static_cast<size_t>(index)].tokens, {}),
                    .finish = finish});
}

}  // namespace fathom
