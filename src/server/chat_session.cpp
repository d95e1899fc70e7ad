#include "server/chat_session.h"

#include <algorithm>
#include <utility>

#include "chat/conversation.h"
#include "chat/prompt.h"
#include "core/prompt_text.h"
#include "server/api_error.h"
#include "server/chat_constraint.h"
#include "server/prompt_tokens.h"

namespace fathom {
namespace {

using Event = ReplyEvent::Kind;

// The schema as the prompt shows it; empty: nothing is said about the format.
std::string shown_schema(const ResponseFormat& format) {
  return format.kind == ResponseFormat::Kind::kJsonSchema ? format.text : std::string{};
}

RenderedPrompt render(const ServedModel& model, const ChatJob& job) {
  std::vector<ChatMessage> messages = for_generation(job.messages);
  for (ChatMessage& message : messages) {
    message.sampled = model.replays->find(message);
  }
  if (offers_tools(job)) {
    offer_tools(messages, job.tools);
  }
  require_schema(messages, shown_schema(job.response_format));
  return render_chat(messages, {.dialect = model.dialect,
                                .thinking = job.thinking,
                                .drop_thinking = job.drop_thinking,
                                .strict_official = model.strict_official_tokens});
}

ReplyOptions::Start start_of_reply(const RenderedPrompt& prompt) {
  if (prompt.text.ends_with(literal::kThink)) {
    return ReplyOptions::Start::kReasoning;
  }
  return prompt.text.ends_with(literal::kEndThink) ? ReplyOptions::Start::kContent : ReplyOptions::Start::kContinued;
}

// What the parser gets of a token: nothing of those that only structure a prompt.
std::string_view reply_bytes(const Tokenizer& tokenizer, TokenId token) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  return tokenizer.is_control(token) && !literal::is_markup(bytes) ? std::string_view{} : bytes;
}

}  // namespace

const char* finish_name(ReplyFinish finish) {
  switch (finish) {
    case ReplyFinish::kLength:
      return "length";
    case ReplyFinish::kToolCalls:
      return "tool_calls";
    case ReplyFinish::kStop:
      break;
  }
  return "stop";
}

std::vector<TokenId> ChatSession::prompt_tokens(const ServedModel& model, const ChatJob& job) {
  return encode_prompt(model.tokenizer, render(model, job));
}

ChatSession::ChatSession(const ServedModel& model, ChatJob job) : model_(model), job_(std::move(job)) {
  const RenderedPrompt prompt = render(model_, job_);
  offers_tools_ = offers_tools(job_);
  const ReplyOptions options{.start = start_of_reply(prompt),
                             .tools = offers_tools_ ? ToolSchemas(job_.tools) : ToolSchemas()};
  for (int i = 0; i < job_.n; ++i) {
    Choice& choice = choices_.emplace_back(Choice{.parser = ReplyParser(options), .stops = StopMatcher(job_.stops)});
    choice.sampled.reasoned = options.start == ReplyOptions::Start::kReasoning;
    choice.sent.open_ended = options.start == ReplyOptions::Start::kContinued;
  }
  submit(encode_prompt(model_.tokenizer, prompt),
         chat_constraint(model_, job_, options.start == ReplyOptions::Start::kReasoning));
}

ChatSession::~ChatSession() = default;

void ChatSession::submit(std::vector<TokenId> prompt, std::optional<GenerationConstraint> constraint) {
  usage_.prompt_tokens = static_cast<int>(prompt.size());
  if (prompt.size() >= static_cast<size_t>(model_.engine.max_context())) {
    throw context_length_error(prompt.size(), model_.engine.max_context(), job_.messages_field);
  }
  GenerationRequest request;
  request.anchors = prompt_anchors(model_.tokenizer, prompt);
  request.prompt = std::move(prompt);
  request.sampling = job_.sampling;
  request.max_tokens = job_.max_tokens;
  request.constraint = std::move(constraint);
  request.logprobs = job_.logprobs;
  if (model_.tokenizer.eos()) {
    request.stop_tokens.push_back(*model_.tokenizer.eos());
  }
  if (model_.request_timeout) {
    request.deadline = std::chrono::steady_clock::now() + *model_.request_timeout;
  }
  std::vector<GenerationRequest> requests(choices_.size(), request);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].sampling.seed) {
      *requests[i].sampling.seed += i;
    }
  }
  feed_.emplace(model_.engine, std::move(requests));
}

std::optional<ChatEvent> ChatSession::next(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (ready_.empty() && !finished()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    std::optional<FeedEvent> event = feed_->next(std::max(left, std::chrono::milliseconds(0)));
    if (!event) {
      return std::nullopt;
    }
    if (auto* token = std::get_if<TokenEvent>(&event->event)) {
      note_time(choices_[static_cast<size_t>(event->choice)], event->at);
      on_token(event->choice, *token);
    } else if (const auto* end = std::get_if<FinishEvent>(&event->event)) {
      on_finish(event->choice, *end);
    }
  }
  if (ready_.empty()) {
    return std::nullopt;
  }
  ChatEvent event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

void ChatSession::note_time(Choice& choice, GenerationTimes::Clock::time_point at) {
  if (choice.finished) {
    return;
  }
  if (!times_.first_token) {
    usage_.cached_tokens = feed_->prompt().n_cached;
    times_.first_token = at;
  }
  if (choice.last_token) {
    times_.token_gaps.observe(std::chrono::duration<double>(at - *choice.last_token).count());
  }
  choice.last_token = at;
  times_.last_token = at;
}

void ChatSession::on_token(int index, TokenEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (choice.finished) {
    return;  // drawn before the engine heard that no more is needed
  }
  ++usage_.completion_tokens;
  const bool reasoning = choice.parser.in_reasoning();
  usage_.reasoning_tokens += static_cast<int>(reasoning);
  const std::string_view bytes = reply_bytes(model_.tokenizer, event.token);
  if (offers_tools_) {
    choice.sampled.text += model_.tokenizer.token_bytes(event.token);
    choice.sampled.tokens.push_back(event.token);
  }
  if (event.logprobs && !choice.calls && !bytes.empty() && !literal::is_markup(bytes)) {
    choice.tokens.push_back({event.token, reasoning, std::move(*event.logprobs)});
  }
  for (ReplyEvent& reply : choice.parser.push(bytes)) {
    send(index, std::move(reply));
  }
  if (choice.parser.is_complete() || choice.stops.matched()) {
    feed_->cancel(index);
    finish(index, ReplyEnd::kStop);
  }
}

void ChatSession::on_finish(int index, const FinishEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (choice.finished) {
    return;
  }
  times_.queue_seconds = event.queue_seconds;
  switch (event.reason) {
    case FinishReason::kStop:
      ++usage_.completion_tokens;  // the stop token
      return finish(index, ReplyEnd::kStop);
    case FinishReason::kLength:
      return finish(index, ReplyEnd::kLength);
    default:
      throw_unfinished(event);
  }
}

void ChatSession::finish(int index, ReplyEnd end) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  for (ReplyEvent& event : choice.parser.finish(end)) {
    if (event.kind == Event::kFinish) {
      send_content(index, choice.stops.finish());
    }
    send(index, std::move(event));
  }
  remember(choice);
  choice.finished = true;
  ++n_finished_;
}

// Of an answer with calls, none of them cut off.
void ChatSession::remember(Choice& choice) {
  const size_t n_calls = choice.sent.tool_calls.size();
  if (n_calls > 0 && n_calls == static_cast<size_t>(choice.n_complete_calls) && !choice.sent.open_ended) {
    model_.replays->remember(std::move(choice.sent), std::move(choice.sampled));
  }
}

void ChatSession::keep(Choice& choice, const ReplyEvent& event) {
  switch (event.kind) {
    case Event::kReasoning:
      choice.sent.reasoning += event.text;
      break;
    case Event::kContent:
      choice.sent.content += event.text;
      break;
    case Event::kCallStart:
      choice.sent.tool_calls.push_back({.id = event.id, .name = event.name});
      break;
    case Event::kArguments:
      choice.sent.tool_calls.back().arguments += event.text;
      break;
    case Event::kCallEnd:
      ++choice.n_complete_calls;
      break;
    case Event::kFinish:
      break;
  }
}

// Content goes through the search for stop strings; nothing is sent after one was found, except the end.
void ChatSession::send(int index, ReplyEvent event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (event.kind == Event::kFinish) {
    if (choice.stops.matched()) {
      event.reason = ReplyFinish::kStop;
    }
    outcome_ = choice.stops.matched() ? "stop_string" : finish_name(event.reason);
    return emit(index, std::move(event));
  }
  if (choice.stops.matched()) {
    return;
  }
  if (event.kind == Event::kContent) {
    return send_content(index, choice.stops.feed(event.text));
  }
  if (event.kind == Event::kCallStart && !choice.calls) {
    send_content(index, choice.stops.finish());
    choice.calls = true;
    choice.tokens.clear();  // those of the opening tag
  }
  emit(index, std::move(event));
}

void ChatSession::send_content(int index, const std::string& text) {
  if (!text.empty()) {
    emit(index, {.kind = Event::kContent, .text = text});
  }
}

void ChatSession::emit(int index, ReplyEvent event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (offers_tools_) {
    keep(choice, event);
  }
  ChatEvent out{.choice = index, .reply = std::move(event)};
  if (out.reply.kind == Event::kFinish && choice.stops.matched()) {
    out.stop_string = job_.stops[*choice.stops.matched()];
  }
  const bool shows_tokens = out.reply.kind == Event::kReasoning || out.reply.kind == Event::kContent ||
                            (out.reply.kind == Event::kFinish && !choice.calls);
  if (shows_tokens) {
    out.tokens = std::exchange(choice.tokens, {});
  }
  ready_.push_back(std::move(out));
}

}  // namespace fathom
