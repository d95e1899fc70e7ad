#include "server/completions.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api_error.h"
#include "server/object_id.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"
#include "server/serve_session.h"
#include "server/sse.h"
#include "server/text_session.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;
// The answer in the shape of OpenAI's text completions. `text_offset` counts characters from the beginning of the whole
// text.
class TextFormat {
 public:
  TextFormat(const ServedModel& model, const TextJob& job, std::string request_id)
      : request_id_(std::move(request_id)),
        tokenizer_(model.tokenizer),
        id_(object_id("cmpl-")),
        created_(unix_time()),
        model_name_(job.model_name),
        fingerprint_(system_fingerprint(model)),
        logprobs_(job.logprobs.has_value()),
        return_ids_(job.return_ids),
        include_usage_(job.include_usage),
        offsets_(job.prompts.size() * static_cast<size_t>(job.n)) {}

  [[nodiscard]] std::string reply(const std::vector<TextEvent>& choices, const ChatUsage& usage) {
    Json json = head();
    Json& list = json["choices"] = Json::array();
    for (const TextEvent& event : choices) {
      list.push_back(choice(event));
    }
    json["usage"] = usage_json(usage);
    return dump(json);
  }

  // The functions of a stream, as in ChatFormat.
  [[nodiscard]] std::string begin(const ChatUsage&) const { return keep_alive(); }
  [[nodiscard]] std::string event(const TextEvent& event) {
    Json json = head();
    json["choices"] = Json::array({choice(event)});
    return sse_data(dump(json));
  }
  [[nodiscard]] std::string end(const ChatUsage& usage) const {
    std::string out;
    if (include_usage_) {
      Json json = head();
      json["choices"] = Json::array();
      json["usage"] = usage_json(usage);
      out = sse_data(dump(json));
    }
    return out + sse_data("[DONE]");
  }
  [[nodiscard]] std::string error(const ApiError& error) const {
    return sse_data(error_json(error, ApiFamily::kOpenAi, request_id_));
  }
  [[nodiscard]] std::string keep_alive() const { return std::string(kSseComment); }

 private:
  [[nodiscard]] Json head() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model_name_},
            {"system_fingerprint", fingerprint_}};
  }

  [[nodiscard]] Json choice(const TextEvent& event) {
    Json json = {{"text", event.text},
                 {"index", event.choice},
                 {"logprobs", logprobs_ ? logprobs(event) : Json()},
                 {"finish_reason", event.finish ? Json(finish_name(*event.finish)) : Json()}};
    if (return_ids_) {
      Json& ids = json["token_ids"] = Json::array();
      for (const TextToken& token : event.tokens) {
        ids.push_back(token.token);
      }
    }
    return json;
  }

  [[nodiscard]] Json logprobs(const TextEvent& event) {
    Json tokens = Json::array();
    Json token_logprobs = Json::array();
    Json top_logprobs = Json::array();
    Json text_offset = Json::array();
    size_t& offset = offsets_[static_cast<size_t>(event.choice)];
    for (const TextToken& token : event.tokens) {
      const std::string text(tokenizer_.token_bytes(token.token));
      tokens.push_back(text);
      token_logprobs.push_back(token.logprobs ? Json(token.logprobs->chosen) : Json());
      top_logprobs.push_back(token.logprobs ? top(*token.logprobs) : Json());
      text_offset.push_back(offset);
      if (!tokenizer_.is_control(token.token)) {
        // Bytes that begin a character.
        offset += static_cast<size_t>(
            std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
      }
    }
    return {{"tokens", tokens},
            {"token_logprobs", token_logprobs},
            {"top_logprobs", top_logprobs},
            {"text_offset", text_offset}};
  }

  [[nodiscard]] Json top(const Logprobs& logprobs) const {
    Json json = Json::object();
    for (const TokenLogprob& other : logprobs.top) {
      json[std::string(tokenizer_.token_bytes(other.token))] = other.logprob;
    }
    return json;
  }

  std::string request_id_;
  const Tokenizer& tokenizer_;
  std::string id_;
  int64_t created_;
  std::string model_name_;
  std::string fingerprint_;
  bool logprobs_;
  bool return_ids_;
  bool include_usage_;
  std::vector<size_t> offsets_;  // of each choice
};

}  // namespace

HttpResponse serve_completion(Service& service, HttpRequest& request) {
  TextJob job = read_text_job(service.model, parse_body(request.body));
  require_healthy(service);
  const bool streams = job.stream;
  const auto format = std::make_shared<TextFormat>(service.model, job, request.id);
  const auto served = std::make_shared<ServedSession<TextSession>>(service, request, std::move(job));
  if (streams) {
    return stream_response(service, served, format);
  }
  const TextJob& read = served->session().job();
  std::vector<TextEvent> choices(read.prompts.size() * static_cast<size_t>(read.n));
  const bool complete = collect_events(*served, request, [&](TextEvent event) {
    TextEvent& choice = choices[static_cast<size_t>(event.choice)];
    choice.choice = event.choice;
    choice.text += event.text;
    std::ranges::move(event.tokens, std::back_inserter(choice.tokens));
    choice.finish = event.finish;
  });
  if (!complete) {
    return {.status = kClientGoneStatus};
  }
  return {.body = format->reply(choices, served->session().usage())};
}

}  // namespace fathom
