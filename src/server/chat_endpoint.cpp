#include "server/chat_endpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "server/json_fields.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How soon a client that left is noticed while no tokens come.
constexpr milliseconds kPeerCheck{100};

ToolCall& call_at(ChatAnswer& answer, const ReplyEvent& event) {
  return answer.tool_calls.at(static_cast<size_t>(event.call));
}

void add_to(ChatAnswer& answer, ChatEvent& event) {
  ReplyEvent& reply = event.reply;
  switch (reply.kind) {
    case ReplyEvent::Kind::kReasoning:
      answer.reasoning += reply.text;
      break;
    case ReplyEvent::Kind::kContent:
      answer.content += reply.text;
      break;
    case ReplyEvent::Kind::kCallStart:
      answer.tool_calls.push_back({.id = std::move(reply.id), .name = std::move(reply.name)});
      break;
    case ReplyEvent::Kind::kArguments:
      call_at(answer, reply).arguments += reply.text;
      break;
    case ReplyEvent::Kind::kCallEnd:
      break;
    case ReplyEvent::Kind::kFinish:
      answer.finish = reply.reason;
      answer.stop_string = std::move(event.stop_string);
      break;
  }
  for (ChosenToken& token : event.tokens) {
    answer.tokens.push_back(std::move(token));
  }
}

// A call whose end never came was cut off.
class Collector {
 public:
  explicit Collector(int n) : complete_(static_cast<size_t>(n)) { reply_.answers.resize(static_cast<size_t>(n)); }

  void add(ChatEvent event) {
    const auto choice = static_cast<size_t>(event.choice);
    if (event.reply.kind == ReplyEvent::Kind::kCallEnd) {
      complete_[choice] = static_cast<size_t>(event.reply.call) + 1;
    }
    add_to(reply_.answers[choice], event);
  }

  [[nodiscard]] ChatReply take(const ChatUsage& usage) {
    for (size_t i = 0; i < reply_.answers.size(); ++i) {
      reply_.answers[i].tool_calls.resize(complete_[i]);
    }
    reply_.usage = usage;
    return std::move(reply_);
  }

 private:
  ChatReply reply_;
  std::vector<size_t> complete_;  // calls of each answer
};

// Nobody is told anything any more: the client has left.
class ClientGone : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the client has left"; }
};

HttpResponse serve_whole(ChatExchange& exchange, ChatSession& session, HttpRequest& request) {
  Collector collector(session.job().n);
  while (!session.finished()) {
    if (std::optional<ChatEvent> event = session.next(kPeerCheck)) {
      collector.add(std::move(*event));
    } else if (request.peer_gone()) {
      throw ApiError(ApiErrorKind::kInternal, ClientGone().what());
    }
  }
  return {.body = exchange.format->reply(collector.take(session.usage()))};
}

// The stream until its end, or until the client leaves. Destroying the session ends the generation.
void stream_events(ChatFormat& format, ChatSession& session, HttpStream& out, milliseconds keep_alive) {
  auto last_sent = Clock::now();
  const auto send = [&](const std::string& text) {
    if (!text.empty()) {
      last_sent = Clock::now();
    }
    return out.send(text);
  };
  bool alive = send(format.begin(session.usage()));
  while (alive && !session.finished()) {
    if (const std::optional<ChatEvent> event = session.next(kPeerCheck)) {
      alive = send(format.event(*event));
    } else if (Clock::now() - last_sent >= keep_alive) {
      alive = send(format.keep_alive());
    } else {
      alive = out.alive();
    }
  }
  if (alive) {
    send(format.end(session.usage()));
  }
}

HttpResponse serve_stream(ChatExchange exchange, std::unique_ptr<ChatSession> session, milliseconds keep_alive) {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  response.stream = [format = std::shared_ptr(std::move(exchange.format)),
                     session = std::shared_ptr(std::move(session)), keep_alive](HttpStream& out) {
    try {
      stream_events(*format, *session, out, keep_alive);
    } catch (...) {
      out.send(format->error(to_api_error(std::current_exception())));
    }
  };
  return response;
}

}  // namespace

HttpResponse serve_chat(Service& service, HttpRequest& request, const ReadChat& read) {
  ChatExchange exchange = read(service.model, request, parse_body(request.body));
  auto session = std::make_unique<ChatSession>(service.model, std::move(exchange.job));
  if (exchange.stream) {
    return serve_stream(std::move(exchange), std::move(session), service.keep_alive);
  }
  return serve_whole(exchange, *session, request);
}

}  // namespace fathom
