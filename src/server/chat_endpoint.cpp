#include "server/chat_endpoint.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "server/request_fields.h"
#include "server/serve_session.h"

namespace fathom {
namespace {

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

}  // namespace

HttpResponse serve_chat(Service& service, HttpRequest& request, const ReadChat& read) {
  ChatExchange exchange = read(service.model, request, parse_body(request.body));
  require_healthy(service);
  const auto served = std::make_shared<ServedSession<ChatSession>>(service, request, std::move(exchange.job));
  if (exchange.stream) {
    return stream_response(service, served, std::shared_ptr(std::move(exchange.format)));
  }
  Collector collector(served->session().job().n);
  if (!collect_events(*served, request, [&](ChatEvent event) { collector.add(std::move(event)); })) {
    return {.status = kClientGoneStatus};
  }
  return {.body = exchange.format->reply(collector.take(served->session().usage()))};
}

}  // namespace fathom
