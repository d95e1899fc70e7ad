// What the endpoints that answer a conversation share. An API reads its request into a ChatJob and writes events in its
// own format; serve_chat() does everything between: the session, streaming, keep-alive, cancellation, errors, logs.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/chat_session.h"
#include "server/http.h"
#include "server/service.h"

namespace fathom {

// One finished answer.
struct ChatAnswer {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCall> tool_calls = {};  // complete ones; arguments are a JSON object
  std::vector<ChosenToken> tokens = {};   // with log-probabilities, if asked for
  ReplyFinish finish = ReplyFinish::kStop;
  std::optional<std::string> stop_string = {};
};

struct ChatReply {
  std::vector<ChatAnswer> answers;  // job.n of them
  ChatUsage usage = {};
};

// How one API writes the answer to one request; made for that request, so it may hold ids and counters. Of one object
// either reply() is called, once, or the stream functions: begin, then event for every event, then end; error instead
// of whatever follows when the generation fails. Each returns the text to send, which may be empty.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;

  // The body of the response, JSON.
  [[nodiscard]] virtual std::string reply(const ChatReply& reply) = 0;

  // Before the prompt is processed; usage has prompt_tokens.
  [[nodiscard]] virtual std::string begin(const ChatUsage& usage) = 0;
  [[nodiscard]] virtual std::string event(const ChatEvent& event) = 0;
  [[nodiscard]] virtual std::string end(const ChatUsage& usage) = 0;
  [[nodiscard]] virtual std::string error(const ApiError& error) = 0;
  // When nothing else was sent for a while.
  [[nodiscard]] virtual std::string keep_alive() { return ": keep-alive\n\n"; }
};

// A request of an API, understood.
struct ChatExchange {
  ChatJob job;
  bool stream = false;
  std::unique_ptr<ChatFormat> format;
};

// Throws Error kBadRequest or ApiError for what the API does not allow.
using ReadChat =
    std::function<ChatExchange(const ServedModel&, const HttpRequest&, const nlohmann::ordered_json& body)>;

// Answers a request; throws ApiError and Error before anything was sent.
[[nodiscard]] HttpResponse serve_chat(Service& service, HttpRequest& request, const ReadChat& read);

}  // namespace fathom
